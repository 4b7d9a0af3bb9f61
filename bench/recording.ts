/** Session recordings of about 800 bytes, the same in every run. */

/** The id of a recording. */
export function recordingId(index: number): string {
  // Spread like random UUIDs, yet the same in every run.
  const mixed = (Math.imul(index + 1, 2_654_435_761) >>> 0).toString(16).padStart(8, '0');
  return `${mixed}-7a3c-4d1e-9b2f-${String(index).padStart(12, '0')}`;
}

/**
 * One recording as JSON, begun so many seconds after the beginning of 2026. Another generation is the same recording
 * with one number changed.
 */
export function recording(index: number, generation: number, second: number, city = 'Rotterdam'): string {
  const start = new Date(Date.UTC(2026, 0, 1) + second * 1000).toISOString();
  return JSON.stringify({
    id: recordingId(index),
    distinct_id: `user-${index % 5000}`,
    viewed: index % 3 === 0,
    recording_duration: 61.5 + (index % 900),
    active_seconds: 30.25 + (index % 300),
    inactive_seconds: 31.25 + generation,
    start_time: start,
    end_time: start.replace('2026', '2027'),
    click_count: index % 50,
    keypress_count: index % 70,
    mouse_activity_count: index % 900,
    console_log_count: index % 11,
    console_warn_count: index % 5,
    console_error_count: index % 3,
    start_url: `https://app.harbor.example/dashboards/${index % 400}?tab=overview`,
    person: {
      id: index % 5000,
      name: `Person ${index % 5000}`,
      distinct_ids: [`user-${index % 5000}`],
      properties: {
        email: `person${index % 5000}@harbor.example`,
        browser: 'Firefox',
        os: 'Linux',
        city,
        plan: 'enterprise',
        referrer: 'https://www.harbor.example/pricing',
      },
      created_at: '2025-03-01T09:30:00Z',
      uuid: recordingId(index % 5000),
    },
    storage: 'object_storage',
    snapshot_source: 'web',
    ongoing: false,
  });
}
