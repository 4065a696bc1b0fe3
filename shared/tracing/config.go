package tracing

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/time/rate"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// Config configures traces. The OTEL variables have their standard meaning. The
// zero value disables tracing.
type Config struct {
	Endpoint   string `env:"OTEL_EXPORTER_OTLP_ENDPOINT" doc:"URL of the OpenTelemetry collector for traces (OTLP over HTTP), such as http://localhost:4318. Default: no traces."`
	Headers    string `env:"OTEL_EXPORTER_OTLP_HEADERS" secret:"true" doc:"Headers of requests to the collector: name=value in URL encoding, separated by commas."`
	Sampler    string `env:"OTEL_TRACES_SAMPLER" envDefault:"parentbased_always_on" doc:"Which traces are recorded: always_on, always_off, traceidratio, or with parentbased_ as the caller's traceparent says."`
	SamplerArg string `env:"OTEL_TRACES_SAMPLER_ARG" doc:"Share of traces that a traceidratio sampler records, from 0 to 1. Default: 1."`

	Roots *x509.CertPool // certificate authorities that the collector may have; nil for those of the system
}

// Validate checks the values that a type alone cannot check.
func (c Config) Validate() error {
	var problems []error
	if c.Endpoint != "" {
		u, err := url.Parse(c.Endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			problems = append(problems, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT must be an http or https URL without user, query or fragment"))
		}
	}
	if _, err := c.headers(); err != nil {
		problems = append(problems, err)
	}
	if _, err := c.sampler(); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// headers returns the headers of export requests. Its error does not contain their
// values.
func (c Config) headers() (http.Header, error) {
	found := http.Header{}
	for pair := range strings.SplitSeq(c.Headers, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, encoded, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(encoded))
		if !ok || err != nil || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS must be name=value pairs separated by commas, with the values in URL encoding")
		}
		found.Set(name, value)
	}
	return found, nil
}

// sampler returns the sampler that the configuration describes.
func (c Config) sampler() (*sampler, error) {
	ratio := 1.0
	if c.SamplerArg != "" {
		parsed, err := strconv.ParseFloat(c.SamplerArg, 64)
		if err != nil || math.IsNaN(parsed) || parsed < 0 || parsed > 1 {
			return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1, not %q", c.SamplerArg)
		}
		ratio = parsed
	}
	kind, parentBased := strings.CutPrefix(cmp.Or(c.Sampler, "parentbased_always_on"), "parentbased_")
	s := &sampler{parentBased: parentBased, callers: limiter(), others: limiter()}
	switch kind {
	case "always_on":
		s.root = sdk.AlwaysSample()
	case "always_off":
		s.root = sdk.NeverSample()
	case "traceidratio":
		s.root = sdk.TraceIDRatioBased(ratio)
	default:
		return nil, fmt.Errorf("OTEL_TRACES_SAMPLER must be always_on, always_off or traceidratio, also with the prefix parentbased_, not %q", c.Sampler)
	}
	return s, nil
}

// traceLimit is the maximum number of traces recorded per second: this many that
// traceparent headers of callers ask for, and this many others.
const traceLimit = 100

func limiter() *rate.Limiter { return rate.NewLimiter(traceLimit, traceLimit) }
