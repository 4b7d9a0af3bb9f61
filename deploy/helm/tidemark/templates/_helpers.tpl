{{- define "tidemark.name" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tidemark.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tidemark.labels" -}}
{{ include "tidemark.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "tidemark.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "tidemark.name" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "tidemark.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* On which nodes a pod runs, and before which others. Empty, or keys of the pod's spec. */}}
{{- define "tidemark.placement" -}}
{{- $set := dict -}}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "priorityClassName" -}}
{{- with index $.Values $key -}}
{{- $set = set $set $key . -}}
{{- end -}}
{{- end -}}
{{- with $set -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{/* Fails where backups would go to a directory that is on no volume: each would fail, for the container's own disk is read-only. */}}
{{- define "tidemark.checkBackups" -}}
{{- $places := list "/data" -}}
{{- if .Values.persistence.backups.enabled -}}
{{- $places = append $places "/backups" -}}
{{- end -}}
{{- range .Values.extraVolumeMounts -}}
{{- $places = append $places (trimSuffix "/" .mountPath) -}}
{{- end -}}
{{- $option := "config.backup.targets" -}}
{{- $targets := (.Values.config.backup | default dict).targets -}}
{{- range .Values.env -}}
{{- if eq .name "TIDEMARK_BACKUP_TARGETS" -}}
{{- $option = .name -}}
{{- $targets = list -}}
{{- range splitList "," (.value | default "") -}}
{{- $targets = append $targets (trim .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $target := compact (default list $targets) -}}
{{- $address := ternary $target (dig "address" "" (ternary dict $target (kindIs "string" $target))) (kindIs "string" $target) -}}
{{- /* What a variable holds is not known here. */ -}}
{{- $isThere := or (hasPrefix "s3://" $address) (contains "${" $address) -}}
{{- range $places -}}
{{- if or (eq $address .) (hasPrefix (printf "%s/" .) $address) -}}
{{- $isThere = true -}}
{{- end -}}
{{- end -}}
{{- if not $isThere -}}
{{- if hasPrefix "/backups/" (printf "%s/" $address) -}}
{{- fail (printf "%s has %s, but persistence.backups.enabled is false: there is no volume for it. Name a bucket (s3://BUCKET/tidemark) or other targets, or set config.backup to null for none" $option $address) -}}
{{- end -}}
{{- fail (printf "%s has %s, which is on no volume of the pod: mount one there (extraVolumes, extraVolumeMounts), or name a bucket (s3://BUCKET/tidemark) or a directory of %s" $option $address (join ", " $places)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The pod of the daemon and of the cron job; they differ in arguments, probes, port and restarts. */}}
{{- define "tidemark.pod" -}}
{{- include "tidemark.checkBackups" . -}}
metadata:
  labels:
    {{- include "tidemark.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # A changed configuration starts a new pod.
    checksum/config: {{ toYaml .Values.config | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "tidemark.serviceAccount" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- if eq .Values.mode "cron" }}
  restartPolicy: Never
  {{- end }}
  terminationGracePeriodSeconds: {{ int .Values.terminationGracePeriodSeconds }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: tidemark
      image: {{ include "tidemark.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: {{ ternary "[daemon, --once]" "[daemon]" (eq .Values.mode "cron") }}
      env:
        - { name: TIDEMARK_CONFIG, value: /etc/tidemark/tidemark.yaml }
        {{- with .Values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .Values.envFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.containerSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if eq .Values.mode "daemon" }}
      ports:
        - { name: http, containerPort: 8787 }
      startupProbe:
        httpGet: { path: /healthz, port: http }
        periodSeconds: 2
        failureThreshold: 60
      livenessProbe:
        httpGet: { path: /healthz, port: http }
        periodSeconds: 30
        timeoutSeconds: 5
        failureThreshold: 4
      # Asks /readyz with the daemon's own token. Ready also during the first sync, which may take hours.
      readinessProbe:
        exec: { command: [node, /app/dist/main.js, daemon, --check] }
        periodSeconds: 60
        timeoutSeconds: 15
        failureThreshold: 2
      {{- end }}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - { name: mirror, mountPath: /data }
        {{- if .Values.persistence.backups.enabled }}
        - { name: backups, mountPath: /backups }
        {{- end }}
        - { name: config, mountPath: /etc/tidemark, readOnly: true }
        - { name: secrets, mountPath: /run/secrets/tidemark, readOnly: true }
        - { name: tmp, mountPath: /tmp }
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: mirror
      persistentVolumeClaim:
        claimName: {{ .Values.persistence.mirror.existingClaim | default (include "tidemark.name" .) }}
    {{- if .Values.persistence.backups.enabled }}
    - name: backups
      persistentVolumeClaim:
        claimName: {{ .Values.persistence.backups.existingClaim | default (printf "%s-backups" (include "tidemark.name" .)) }}
    {{- end }}
    - name: config
      configMap:
        name: {{ include "tidemark.name" . }}
    - name: secrets
      secret:
        secretName: {{ .Values.existingSecret }}
        defaultMode: 0440
    - name: tmp
      emptyDir: { sizeLimit: 16Mi }
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- include "tidemark.placement" . | nindent 2 }}
{{- end -}}

{{/* Of the workers and of `fleet serve`: what their pods have in common. A dict of root and component. */}}
{{- define "tidemark.fleetPod" -}}
{{- $root := .root -}}
{{- $worker := eq .component "worker" -}}
metadata:
  labels:
    {{- include "tidemark.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
    {{- with $root.Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # A changed configuration starts new pods.
    checksum/config: {{ toYaml $root.Values.fleet.config | sha256sum }}
    {{- with $root.Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "tidemark.serviceAccount" $root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  # Cells under way may end for 20 s; then their processes end.
  terminationGracePeriodSeconds: {{ ternary (max 45 (int $root.Values.terminationGracePeriodSeconds)) 15 $worker }}
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: tidemark
      image: {{ include "tidemark.image" $root | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      # A worker is named after its pod. It has no probes: one of which nothing is heard is replaced after the heartbeat.
      args: [fleet, {{ ternary "work" "serve" $worker }}]
      env:
        - { name: TIDEMARK_CONFIG, value: /etc/tidemark/tidemark.yaml }
        {{- with $root.Values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $root.Values.envFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.containerSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if not $worker }}
      ports:
        - { name: http, containerPort: 8787 }
      livenessProbe:
        httpGet: { path: /healthz, port: http }
        periodSeconds: 30
        timeoutSeconds: 5
        failureThreshold: 4
      readinessProbe:
        httpGet: { path: /healthz, port: http }
        periodSeconds: 10
      {{- end }}
      resources:
        {{- toYaml (ternary $root.Values.fleet.workers.resources $root.Values.resources $worker) | nindent 8 }}
      volumeMounts:
        {{- if $worker }}
        - { name: cache, mountPath: /data }
        {{- end }}
        - { name: config, mountPath: /etc/tidemark, readOnly: true }
        - { name: secrets, mountPath: /run/secrets/tidemark, readOnly: true }
        {{- if $worker }}
        - { name: cells, mountPath: /run/secrets/cells, readOnly: true }
        {{- end }}
        - { name: tmp, mountPath: /tmp }
        {{- with $root.Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    {{- if $worker }}
    # May be lost: mirrors come from storage.
    - name: cache
      emptyDir: { sizeLimit: {{ $root.Values.fleet.workers.cacheSize }} }
    {{- end }}
    - name: config
      configMap:
        name: {{ include "tidemark.name" $root }}
    - name: secrets
      secret:
        secretName: {{ $root.Values.existingSecret }}
        defaultMode: 0440
    {{- if $worker }}
    - name: cells
      secret:
        secretName: {{ $root.Values.fleet.cellsSecret }}
        defaultMode: 0440
    {{- end }}
    - name: tmp
      emptyDir: { sizeLimit: 64Mi }
    {{- with $root.Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- include "tidemark.placement" $root | nindent 2 }}
{{- end -}}
