// Renders a chart as `helm template` does, for machines without Helm: Go's text/template with sprig and Helm's own
// functions, values as Helm passes them (numbers are floating point). Usage: helm CHART RELEASE VALUES.yaml
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

type files struct{ chart string }

// Get returns the text of a file of the chart; empty where there is none, as in Helm.
func (f files) Get(name string) string {
	text, _ := os.ReadFile(filepath.Join(f.chart, name))
	return string(text)
}

// read parses a YAML file and passes it through JSON, as Helm does.
func read(path string) map[string]interface{} {
	text, err := os.ReadFile(path)
	check(err)
	var parsed interface{}
	check(yaml.Unmarshal(text, &parsed))
	bytes, err := json.Marshal(parsed)
	check(err)
	values := map[string]interface{}{}
	check(json.Unmarshal(bytes, &values))
	return values
}

// merge lays maps over maps; everything else, lists too, is replaced, and null removes a key.
func merge(base, over map[string]interface{}) map[string]interface{} {
	for key, value := range over {
		if value == nil {
			delete(base, key)
			continue
		}
		inner, isMap := value.(map[string]interface{})
		below, wasMap := base[key].(map[string]interface{})
		if isMap && wasMap {
			base[key] = merge(below, inner)
		} else {
			base[key] = value
		}
	}
	return base
}

// toYaml passes the value through JSON, as Helm does: a large whole number is not written with an exponent.
func toYaml(value interface{}) string {
	bytes, err := json.Marshal(value)
	check(err)
	var plain interface{}
	check(yaml.Unmarshal(bytes, &plain))
	var text strings.Builder
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	check(encoder.Encode(plain))
	return strings.TrimSuffix(text.String(), "\n")
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	chart, release := os.Args[1], os.Args[2]
	values := merge(read(filepath.Join(chart, "values.yaml")), read(os.Args[3]))
	meta := map[string]interface{}{}
	for key, value := range read(filepath.Join(chart, "Chart.yaml")) {
		meta[strings.ToUpper(key[:1])+key[1:]] = value
	}
	data := map[string]interface{}{
		"Values":  values,
		"Chart":   meta,
		"Files":   files{chart},
		"Release": map[string]interface{}{"Name": release, "Namespace": "default", "Service": "Helm"},
	}
	all := template.New("chart").Option("missingkey=zero")
	functions := sprig.TxtFuncMap()
	delete(functions, "env")
	delete(functions, "expandenv")
	functions["toYaml"] = toYaml
	functions["required"] = func(warning string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, errors.New(warning)
		}
		return value, nil
	}
	functions["include"] = func(name string, data interface{}) (string, error) {
		var text strings.Builder
		err := all.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	all.Funcs(functions)
	paths, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	check(err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		check(err)
		template.Must(all.New(filepath.Base(path)).Parse(string(text)))
	}
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasPrefix(name, "_") {
			continue
		}
		var text strings.Builder
		check(all.ExecuteTemplate(&text, name, data))
		fmt.Printf("---\n# Source: %s\n%s\n", name, text.String())
	}
}
