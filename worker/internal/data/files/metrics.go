package files

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts files.
type Metrics struct {
	files *prometheus.CounterVec
	bytes *prometheus.CounterVec
}

// NewMetrics registers the metrics; nil registers none.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		files: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_worker_files_total", Help: "Files of launches that were completed or have failed, by source and state.",
		}, []string{"source", "state"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_worker_file_bytes_total", Help: "Bytes of complete files of launches, by source.",
		}, []string{"source"}),
	}
	for _, state := range []State{Complete, Canceled, Failed, QuotaExceeded, DiskFull} { // exported from the start
		m.files.WithLabelValues(string(Download), string(state))
	}
	m.files.WithLabelValues(string(Upload), string(Complete))
	for _, source := range []Source{Download, Upload} {
		m.bytes.WithLabelValues(string(source))
	}
	if registry != nil {
		registry.MustRegister(m.files, m.bytes)
	}
	return m
}

func (m *Metrics) countEnd(f *File) {
	m.files.WithLabelValues(string(f.Source), string(f.State)).Inc()
	if f.State == Complete {
		m.bytes.WithLabelValues(string(f.Source)).Add(float64(f.Size))
	}
}
