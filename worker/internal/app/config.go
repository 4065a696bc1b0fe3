package app

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/browser-svc/svc/shared/lazy"
	"github.com/browser-svc/svc/shared/metrics"
	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/shared/tracing"
	"github.com/browser-svc/svc/worker/internal/cdp/resume"
)

// Config is the worker's configuration.
type Config struct {
	Port             int    `env:"PORT" envDefault:"3000" group:"Most important" doc:"Port to listen on; the container image sets 38923."`
	PublicURL        string `env:"PUBLIC_URL" doc:"URL at which clients reach this worker. Default: http://localhost:PORT."`
	WorkerID         string `env:"WORKER_ID" doc:"Name of this machine in the cloud and, as /w/WORKER_ID, in URLs. Default: a generated id."`
	OrganizationKey  string `env:"SVC_KEY" secret:"true" doc:"Organization key; without it, the worker accepts only launches over /launch, with the caller's key."`
	WorkerKey        string `env:"API_KEY" secret:"true" doc:"Worker key, required by the worker API. Default: SVC_KEY, or a key that is generated and printed at each start."`
	CloudURL         string `env:"SVC_CLOUD_URL" envDefault:"http://localhost:8080" doc:"URL of the cloud API."`
	DataDir          string `env:"DATA_DIR" envDefault:".svc/worker" doc:"Directory for launches, saved data, builds (browsers), extensions, bundles (one JSON file each) and pending reports."`
	MaxSessions      int    `env:"MAX_SESSIONS" envDefault:"0" doc:"Maximum number of browsers at once. 0: no limit."`
	LaunchMemory     int64  `env:"LAUNCH_MEMORY_MB" envDefault:"0" doc:"Memory of a launch and its files, in megabytes, above which its browser is killed. 0: no limit."`
	RequireIsolation bool   `env:"REQUIRE_ISOLATION" envDefault:"false" doc:"Refuse to start if this host cannot separate launches; the images set it."`

	Host           string         `env:"HOST" group:"Network and addresses" doc:"Address to listen on. Default: all addresses."`
	AllowedHosts   string         `env:"ALLOWED_HOSTS" doc:"Addresses of this host that browsers may reach, separated by commas, such as 127.0.0.1:3000,localhost:8081."`
	DeniedHosts    string         `env:"DENIED_HOSTS" envDefault:"default" doc:"Networks and host names that browsers must not reach, separated by commas; default stands for this host, link-local addresses, metadata services, this worker and the cloud API."`
	CACertificates []string       `env:"CA_CERTIFICATES" doc:"Additional trusted certificate authorities: PEM files, or directories of them, separated by commas."`
	TrustedProxies []netip.Prefix `env:"TRUSTED_PROXIES" doc:"Networks of load balancers whose X-Forwarded-For header is trusted, separated by commas."`
	DebugPortUsers []string       `env:"DEBUG_PORT_USERS" doc:"Users of this host who may connect to debug ports, besides root and the worker's user, separated by commas."`
	FrameAncestors []string       `env:"VIEW_FRAME_ANCESTORS" doc:"Origins whose pages may embed the live view, separated by commas, such as https://*.example.com. Default: none."`
	ResumeSeconds  int            `env:"RESUME_SECONDS" envDefault:"30" doc:"How long a resumable CDP connection is kept after its socket was cut off, in seconds. 0: not kept."`

	ChromiumPath   string `env:"CHROMIUM_PATH" group:"Browsers" doc:"Path of the Chromium to launch. Default: the system's Chromium."`
	BrowsersDir    string `env:"BROWSERS_DIR" doc:"Directory with more browser builds, one per subdirectory. Default: DATA_DIR/browsers."`
	AutoEngine     bool   `env:"AUTO_ENGINE" envDefault:"false" doc:"Use a headless shell for launches that name no engine and need nothing else."`
	AllowNoSandbox bool   `env:"ALLOW_NO_SANDBOX" envDefault:"false" doc:"Without REQUIRE_ISOLATION: launch browsers even if this host does not allow Chromium's sandbox."`
	WarmPool       int    `env:"WARM_POOL" envDefault:"2" doc:"Minimum number of warm browsers, which are started before a launch needs them. 0: none."`
	WarmPoolMax    int    `env:"WARM_POOL_MAX" envDefault:"0" doc:"Maximum number of warm browsers, at least WARM_POOL. 0: eight per processor."`
	FreezeIdle     int    `env:"FREEZE_IDLE_SECONDS" envDefault:"0" doc:"Freeze a browser that no client has used for this long, in seconds. 0: never."`
	PlaywrightDir  string `env:"PLAYWRIGHT_DIR" doc:"Directory with versions of playwright-core for /playwright, one per subdirectory. Default: DATA_DIR/playwright."`
	NPMRegistry    string `env:"NPM_CONFIG_REGISTRY" envDefault:"https://registry.npmjs.org" doc:"npm registry from which svc-worker playwright install downloads playwright-core."`
	ChromeDriver   string // path of a chromedriver that replaces the one in PATH; for tests

	MaxMemory   float64 `env:"MAX_MEMORY_PERCENT" envDefault:"90" group:"Limits" doc:"Reject launches at or above this memory usage, in percent. 0: no limit."`
	MaxCPU      float64 `env:"MAX_CPU_PERCENT" envDefault:"0" doc:"Reject launches at or above this CPU usage over about ten seconds, in percent. 0: no limit."`
	LaunchDisk  int64   `env:"LAUNCH_DISK_MB" envDefault:"1024" doc:"Size of the files of a launch, and of its shared memory, in megabytes each. 0: no limit."`
	LaunchFiles int64   `env:"LAUNCH_FILES_MB" envDefault:"4096" doc:"Size of the downloads and uploads of a launch together, in megabytes, on the disk of DATA_DIR. 0: no limit."`
	ProfileData int64   `env:"PROFILE_DATA_MB" envDefault:"1024" doc:"Size of a profile's browser data without caches, in megabytes, above which it is not saved."`

	Lifetimes lifetimes `group:"Lifetime of sessions"`

	ProfileStoreURL string        `env:"PROFILE_STORE_URL" secret:"true" group:"Storage" doc:"Object store for the data of persistent profiles: file:///PATH, s3://BUCKET?region=... or gs://BUCKET. Default: DATA_DIR."`
	RecordingsURL   string        `env:"RECORDINGS_URL" secret:"true" doc:"Object store for ended recordings: file:///PATH, s3://BUCKET?region=... or gs://BUCKET. Default: DATA_DIR."`
	FilesRetention  time.Duration `env:"FILES_RETENTION" envDefault:"168h" doc:"How long files and recordings of a launch are kept after its end. 0: launches that keep any are rejected."`

	AllowNoKey    bool          `env:"ALLOW_NO_KEY" envDefault:"false" group:"Readiness and shutdown" doc:"Report ready without SVC_KEY, for workers that serve only /launch with the callers' keys."`
	ShutdownDelay time.Duration `env:"SHUTDOWN_DELAY" envDefault:"0s" doc:"How long requests are served after SIGTERM while /readyz reports not ready; the image sets 5s."`
	DrainTimeout  time.Duration `env:"DRAIN_TIMEOUT" envDefault:"0s" doc:"How long running browsers may then continue before they are stopped; the image sets 25s."`
	SaveTimeout   time.Duration `env:"SAVE_TIMEOUT" envDefault:"30s" doc:"How long the worker then waits for the data of persistent profiles and for recordings to be saved."`

	Metrics metrics.Config `group:"Metrics, traces and logs"`
	Traces  tracing.Config
	Logging program.Logging
}

// Limits that no worker needs to change.
const (
	maxConnections  = 10_000           // of clients at once
	minFreeDisk     = 200 << 20        // of DATA_DIR, in bytes; launches are rejected below it
	profileVersions = 3                // kept of each persistent profile
	launchProcesses = 4096             // processes and threads of a launch; a tab needs about 20
	resumeBuffer    = 32 << 20         // bytes of messages that are kept for all resumable connections of a browser
	unresponsive    = 60 * time.Second // after which a browser that does not answer is stopped
	bundlesDir      = "bundles"        // with more bundles, in DATA_DIR
)

var workerID = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// frameAncestor matches an origin, whose host may begin with a wildcard. Nothing in it can
// end the directive of a Content-Security-Policy.
var frameAncestor = lazy.Regexp(`^https?://(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:([0-9]{1,5}|\*))?$`)

// Validate checks the values and returns all problems at once.
func (c Config) Validate() error {
	var problems []error
	if c.Port < 1 || c.Port > 65535 {
		problems = append(problems, errors.New("PORT must be from 1 to 65535"))
	}
	if c.MaxSessions < 0 || c.MaxMemory < 0 || c.MaxMemory > 100 || c.MaxCPU < 0 || c.MaxCPU > 100 || c.DrainTimeout < 0 || c.ShutdownDelay < 0 || c.SaveTimeout < 0 {
		problems = append(problems, errors.New("MAX_SESSIONS, DRAIN_TIMEOUT, SAVE_TIMEOUT and SHUTDOWN_DELAY must not be negative; MAX_MEMORY_PERCENT and MAX_CPU_PERCENT must be from 0 to 100"))
	}
	if c.FreezeIdle < 0 || c.FreezeIdle > 86400 {
		problems = append(problems, errors.New("FREEZE_IDLE_SECONDS must be from 0 to 86400"))
	}
	if c.ProfileData < 1 || c.ProfileData > 1<<20 {
		problems = append(problems, errors.New("PROFILE_DATA_MB must be from 1 to 1048576"))
	}
	if c.LaunchDisk < 0 || c.LaunchFiles < 0 || c.LaunchMemory < 0 {
		problems = append(problems, errors.New("LAUNCH_DISK_MB, LAUNCH_FILES_MB and LAUNCH_MEMORY_MB must not be negative"))
	}
	if c.FilesRetention != 0 && c.FilesRetention < time.Minute {
		problems = append(problems, errors.New("FILES_RETENTION must be 0 or at least 1m"))
	}
	if c.WarmPool < 0 || c.WarmPool > 100 || c.WarmPoolMax < 0 || c.WarmPoolMax > 1000 {
		problems = append(problems, errors.New("WARM_POOL must be from 0 to 100, and WARM_POOL_MAX from 0 to 1000"))
	}
	if c.WorkerID != "" && !workerID().MatchString(c.WorkerID) {
		problems = append(problems, errors.New("WORKER_ID must have at most 128 letters, digits, dots, dashes and underscores, and start with a letter or digit"))
	}
	if c.ResumeSeconds < 0 || c.ResumeSeconds > 3600 {
		problems = append(problems, errors.New("RESUME_SECONDS must be from 0 to 3600"))
	}
	for _, origin := range c.FrameAncestors {
		if !frameAncestor().MatchString(origin) {
			problems = append(problems, fmt.Errorf("VIEW_FRAME_ANCESTORS: %q is not an origin such as https://app.example.com", origin))
		}
	}
	problems = append(problems, c.Lifetimes.Validate(), c.Metrics.Validate(), c.Traces.Validate())
	for name, address := range map[string]string{"PUBLIC_URL": c.PublicURL, "SVC_CLOUD_URL": c.CloudURL} {
		if address == "" {
			continue
		}
		if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
			u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			problems = append(problems, fmt.Errorf("%s must be an http or https URL without user, query or fragment", name))
		}
	}
	return errors.Join(problems...)
}

func (c Config) resume() resume.Options {
	return resume.Options{ResumeTimeout: time.Duration(c.ResumeSeconds) * time.Second, Buffer: resumeBuffer}
}

// publicURL returns the base of the URLs that the worker returns.
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
