package profiledata

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts garbage collections.
type Metrics struct {
	collections *prometheus.CounterVec
	bytes       prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		collections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "svc_worker_profile_collections_total", Help: "Garbage collections of profile data in OBJECT_STORE_URL by this worker, by result.",
		}, []string{"result"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "svc_worker_profile_garbage_bytes_total", Help: "Bytes of unused profile data that this worker deleted from OBJECT_STORE_URL.",
		}),
	}
	for _, result := range []string{"success", "failure"} { // exported from the start
		m.collections.WithLabelValues(result)
	}
	registry.MustRegister(m.collections, m.bytes)
	return m
}

func (m *Metrics) countCollection(done Garbage, err error) {
	result := "success"
	if err != nil {
		result = "failure"
	}
	m.collections.WithLabelValues(result).Inc()
	m.bytes.Add(float64(done.Bytes))
}
