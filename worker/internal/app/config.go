package app

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/browser-svc/svc/shared/lazy"
	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/worker/internal/resume"
)

// Config is the worker's configuration.
type Config struct {
	Host             string         `env:"HOST" doc:"The address to listen on; all addresses when unset."`
	Port             int            `env:"PORT" envDefault:"3000" doc:"The port to listen on. The container image sets 38923."`
	PublicURL        string         `env:"PUBLIC_URL" doc:"Where clients reach this worker, the base of every URL that it hands out; http://localhost:PORT when unset."`
	WorkerID         string         `env:"WORKER_ID" doc:"The name of this machine, in the cloud and behind a load balancer: when set, URLs get /w/WORKER_ID. A lasting one is made when unset."`
	OrganizationKey  string         `env:"SVC_KEY" secret:"true" doc:"The organization key. Without one only launches over /launch are taken, with the key of whoever asks."`
	AllowNoKey       bool           `env:"ALLOW_NO_KEY" envDefault:"false" doc:"Be ready without SVC_KEY: for a worker that is there for launches over /launch alone, with its callers' keys."`
	WorkerKey        string         `env:"API_KEY" secret:"true" doc:"The worker key, which opens this worker's API; SVC_KEY when unset. With neither, one is made at each start and printed once."`
	CloudURL         string         `env:"SVC_CLOUD_URL" envDefault:"http://localhost:8080" doc:"Where the cloud API is."`
	DataDir          string         `env:"DATA_DIR" envDefault:".svc/worker" doc:"Where launches, kept browser data and waiting reports live. Every user must be able to pass through the directories above it when the worker runs as root."`
	ChromiumPath     string         `env:"CHROMIUM_PATH" doc:"The Chromium to launch; the system's when unset."`
	BrowsersDir      string         `env:"BROWSERS_DIR" doc:"A directory with more browser builds, one in each directory below it; browsers in DATA_DIR when unset. svc-worker browsers install puts them there."`
	BundlesDir       string         `env:"BUNDLES_DIR" doc:"A directory with more bundles, a JSON file each."`
	MaxSessions      int            `env:"MAX_SESSIONS" envDefault:"0" doc:"The most browsers at once; 0 for no limit."`
	MaxConnections   int            `env:"MAX_CONNECTIONS" envDefault:"10000" doc:"The most client connections at once, sockets of clients that drive or watch a browser included; more wait to be accepted. 0 for no limit."`
	MaxMemory        float64        `env:"MAX_MEMORY_PERCENT" envDefault:"90" doc:"From which use of memory on no launch is taken, in percent; 0 for any."`
	MaxCPU           float64        `env:"MAX_CPU_PERCENT" envDefault:"0" doc:"From which use of the processors on no launch is taken, in percent, over some seconds; 0 for any."`
	MinFreeDisk      int64          `env:"MIN_FREE_DISK_MB" envDefault:"200" doc:"Below how much free space in DATA_DIR no launch is taken, in megabytes; 0 for any."`
	WarmPool         int            `env:"WARM_POOL" envDefault:"2" doc:"The most browsers that are kept ready for launches that need no more than a running browser can be given: those start in milliseconds. They are started one at a time between launches, by what was launched lately, and end after an hour without launches; 0 to keep none."`
	WarmPoolMemory   int64          `env:"WARM_POOL_MEMORY_MB" envDefault:"0" doc:"The most memory that browsers kept ready take, in megabytes, some 200 each; 0 for what the machine can spare: none is started from 10 points below MAX_MEMORY_PERCENT on, and they end from 5 below on."`
	ProfileVersions  int            `env:"PROFILE_VERSIONS" envDefault:"3" doc:"How many versions of its browser data are kept of each profile that persists."`
	ProfileData      int64          `env:"PROFILE_DATA_MB" envDefault:"1024" doc:"The most that a profile's browser data may be to be kept, in megabytes, caches not counted. Of what is larger the last version that was not is kept."`
	ShutdownDelay    time.Duration  `env:"SHUTDOWN_DELAY" envDefault:"0s" doc:"How long requests, launches too, are served after a SIGTERM, while /readyz tells load balancers to send no more. Then DRAIN_TIMEOUT begins. The container image sets 5s."`
	DrainTimeout     time.Duration  `env:"DRAIN_TIMEOUT" envDefault:"0s" doc:"How long a SIGTERM lets running browsers go on before they are ended. No launch is taken meanwhile. The container image sets 25s."`
	Unresponsive     time.Duration  `env:"UNRESPONSIVE_TIMEOUT" envDefault:"60s" doc:"How long a browser may leave the worker's questions unanswered before it is ended, as unresponsive. A page that is busy, or paused by a debugger, is no reason. 0 to wait for ever."`
	DeniedHosts      string         `env:"DENIED_HOSTS" envDefault:"default" doc:"What browsers must not reach: networks and host names, separated by commas. default stands for this host's own addresses, the loopback among them, but for ALLOWED_HOSTS; link-local addresses; the metadata services of clouds; this worker and the cloud API, wherever its name leads. The debug ports of browsers, those of this host's other workers included, are never reached."`
	AllowedHosts     string         `env:"ALLOWED_HOSTS" doc:"What of this host's own addresses browsers may reach nevertheless, as destinations and as proxies: addresses, networks and host names, each with a port or for all ports, separated by commas, such as 127.0.0.1:3000,localhost:8081,[::1]:8080. It opens nothing else that DENIED_HOSTS denies, neither a worker's port nor the cloud API. Nothing when unset."`
	DebugPortUsers   []string       `env:"DEBUG_PORT_USERS" doc:"The users of this host, by name or number, who may connect to the debug ports of browsers besides root and the worker's own, separated by commas."`
	ResumeSeconds    int            `env:"RESUME_SECONDS" envDefault:"30" doc:"How long a CDP connection that asked for it outlives a socket that was cut off, in seconds; 0 to keep none."`
	ResumeBuffer     int            `env:"RESUME_BUFFER_MB" envDefault:"32" doc:"What is kept of a browser's messages for all of its such connections, in megabytes: as much as clients may miss. No message may be bigger."`
	LaunchDisk       int64          `env:"LAUNCH_DISK_MB" envDefault:"1024" doc:"The most that the files of a launch take, and its shared memory as much, in megabytes; 0 for no limit. They are in memory, where launches have files of their own."`
	LaunchMemory     int64          `env:"LAUNCH_MEMORY_MB" envDefault:"0" doc:"The most memory that a launch takes, its files included, in megabytes; 0 for no limit. A browser that wants more ends."`
	LaunchPIDs       int            `env:"LAUNCH_PIDS" envDefault:"4096" doc:"The most processes and threads of a launch; 0 for no limit. A tab takes some 20."`
	RequireIsolation bool           `env:"REQUIRE_ISOLATION" envDefault:"false" doc:"Refuse to start where this host denies a piece of the isolation of launches; it is left out and reported otherwise."`
	AllowNoSandbox   bool           `env:"ALLOW_NO_SANDBOX" envDefault:"false" doc:"Launch even where this host denies Chromium its sandbox, unless REQUIRE_ISOLATION is set. Whoever drives such a browser can read what it can."`
	TraceCollector   string         `env:"OTEL_EXPORTER_OTLP_ENDPOINT" doc:"The OpenTelemetry collector that traces of launches go to, by OTLP over HTTP, such as http://localhost:4318; none when unset."`
	TrustedProxies   []netip.Prefix `env:"TRUSTED_PROXIES" doc:"The networks of load balancers whose X-Forwarded-For is believed, separated by commas."`
	Logging          program.Logging
}

var workerID = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// Validate checks what one variable's type can't.
func (c Config) Validate() error {
	var problems []error
	if c.Port < 1 || c.Port > 65535 {
		problems = append(problems, errors.New("PORT must be from 1 to 65535"))
	}
	if c.MaxSessions < 0 || c.MaxConnections < 0 || c.MaxMemory < 0 || c.MaxMemory > 100 || c.MaxCPU < 0 || c.MaxCPU > 100 || c.MinFreeDisk < 0 || c.DrainTimeout < 0 || c.ShutdownDelay < 0 {
		problems = append(problems, errors.New("MAX_SESSIONS, MAX_CONNECTIONS, MIN_FREE_DISK_MB, DRAIN_TIMEOUT and SHUTDOWN_DELAY must not be negative, MAX_MEMORY_PERCENT and MAX_CPU_PERCENT from 0 to 100"))
	}
	if c.Unresponsive != 0 && c.Unresponsive < time.Second {
		problems = append(problems, errors.New("UNRESPONSIVE_TIMEOUT must be 0 or at least 1s"))
	}
	if c.ProfileVersions < 1 || c.ProfileVersions > 1000 || c.ProfileData < 1 || c.ProfileData > 1<<20 {
		problems = append(problems, errors.New("PROFILE_VERSIONS must be from 1 to 1000, PROFILE_DATA_MB from 1 to 1048576"))
	}
	if c.LaunchDisk < 0 || c.LaunchMemory < 0 || c.LaunchPIDs < 0 {
		problems = append(problems, errors.New("LAUNCH_DISK_MB, LAUNCH_MEMORY_MB and LAUNCH_PIDS must not be negative"))
	}
	if c.WarmPool < 0 || c.WarmPool > 100 || c.WarmPoolMemory < 0 {
		problems = append(problems, errors.New("WARM_POOL must be from 0 to 100, WARM_POOL_MEMORY_MB not negative"))
	}
	if c.WorkerID != "" && !workerID().MatchString(c.WorkerID) {
		problems = append(problems, errors.New("WORKER_ID must be letters, digits, dots, dashes and underscores, at most 128"))
	}
	if c.ResumeSeconds < 0 || c.ResumeSeconds > 3600 || c.ResumeBuffer < 1 || c.ResumeBuffer > 1024 {
		problems = append(problems, errors.New("RESUME_SECONDS must be from 0 to 3600, RESUME_BUFFER_MB from 1 to 1024"))
	}
	for name, address := range map[string]string{"PUBLIC_URL": c.PublicURL, "SVC_CLOUD_URL": c.CloudURL, "OTEL_EXPORTER_OTLP_ENDPOINT": c.TraceCollector} {
		if address == "" {
			continue
		}
		if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
			u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			problems = append(problems, fmt.Errorf("%s must be an http or https URL without user, query and fragment", name))
		}
	}
	return errors.Join(problems...)
}

func (c Config) resume() resume.Options {
	return resume.Options{ResumeTimeout: time.Duration(c.ResumeSeconds) * time.Second, Buffer: c.ResumeBuffer << 20}
}

// publicURL is the base of the URLs that the worker hands out.
func (c Config) publicURL() (*url.URL, error) {
	address := c.PublicURL
	if address == "" {
		address = fmt.Sprintf("http://localhost:%d", c.Port)
	}
	base, err := url.Parse(strings.TrimSuffix(address, "/"))
	if err != nil {
		return nil, fmt.Errorf("PUBLIC_URL: %w", err)
	}
	if c.WorkerID != "" {
		base = base.JoinPath("w", c.WorkerID)
	}
	return base, nil
}
