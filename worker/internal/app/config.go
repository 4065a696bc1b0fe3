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
	Host             string         `env:"HOST" doc:"Address to listen on. Default: all addresses."`
	Port             int            `env:"PORT" envDefault:"3000" doc:"Port to listen on. The container image sets 38923."`
	PublicURL        string         `env:"PUBLIC_URL" doc:"URL at which clients reach this worker; base of all URLs that it returns. Default: http://localhost:PORT."`
	WorkerID         string         `env:"WORKER_ID" doc:"Name of this machine in the cloud and behind a load balancer. If set, URLs start with /w/WORKER_ID. Default: a generated id, which is kept in DATA_DIR."`
	OrganizationKey  string         `env:"SVC_KEY" secret:"true" doc:"Organization key. Without it the worker accepts only launches over /launch, with the caller's key."`
	AllowNoKey       bool           `env:"ALLOW_NO_KEY" envDefault:"false" doc:"Report ready without SVC_KEY. For workers that serve only launches over /launch, with the callers' keys."`
	WorkerKey        string         `env:"API_KEY" secret:"true" doc:"Worker key, required by the worker API. Default: SVC_KEY. Without either, a key is generated at each start and printed once."`
	CloudURL         string         `env:"SVC_CLOUD_URL" envDefault:"http://localhost:8080" doc:"URL of the cloud API."`
	CACertificates   []string       `env:"CA_CERTIFICATES" doc:"Certificate authorities that the worker trusts in addition to those of the system, for example of a proxy that re-signs TLS: PEM files, or directories with .pem, .crt and .cer files, separated by commas. They count for browsers and their https proxies, and for calls to the cloud, the object stores and the trace collector."`
	DataDir          string         `env:"DATA_DIR" envDefault:".svc/worker" doc:"Directory for launches, saved browser data and pending reports. If the worker runs as root, every user must have search permission on its parent directories."`
	ChromiumPath     string         `env:"CHROMIUM_PATH" doc:"Path of the Chromium to launch. Default: the system's Chromium."`
	BrowsersDir      string         `env:"BROWSERS_DIR" doc:"Directory with more browser builds, one per subdirectory; svc-worker browsers install puts builds there. Default: DATA_DIR/browsers."`
	AutoEngine       bool           `env:"AUTO_ENGINE" envDefault:"false" doc:"Use a headless shell for launches without an engine that need nothing else, if the version is installed as both engines. Such browsers start faster, and have no DevTools front end."`
	MaxSessions      int            `env:"MAX_SESSIONS" envDefault:"0" doc:"Maximum number of browsers at once. 0: no limit."`
	MaxMemory        float64        `env:"MAX_MEMORY_PERCENT" envDefault:"90" doc:"Reject launches at or above this memory usage, in percent. 0: no limit."`
	MaxCPU           float64        `env:"MAX_CPU_PERCENT" envDefault:"0" doc:"Reject launches at or above this CPU usage, in percent, averaged over about ten seconds. 0: no limit."`
	WarmPool         int            `env:"WARM_POOL" envDefault:"2" doc:"Minimum number of warm browsers. A launch whose settings can be applied to a running browser takes a warm one and starts in milliseconds. Warm browsers match recent launches and are stopped after an hour without launches. For regular launches the worker keeps more, up to WARM_POOL_MAX: as many as launches arrive while a browser is replaced. 0: no warm browsers."`
	WarmPoolMax      int            `env:"WARM_POOL_MAX" envDefault:"0" doc:"Maximum number of warm browsers, if it is greater than WARM_POOL; otherwise the number is WARM_POOL. 0: eight per processor."`
	ProfileData      int64          `env:"PROFILE_DATA_MB" envDefault:"1024" doc:"Maximum size of a profile's browser data, in megabytes, without caches. Larger data is not saved; the last smaller version is kept."`
	ShutdownDelay    time.Duration  `env:"SHUTDOWN_DELAY" envDefault:"0s" doc:"How long requests, including launches, are served after SIGTERM while /readyz reports not ready. Then DRAIN_TIMEOUT starts. The container image sets 5s."`
	DrainTimeout     time.Duration  `env:"DRAIN_TIMEOUT" envDefault:"0s" doc:"How long running browsers may continue after SIGTERM before they are stopped. Launches are rejected meanwhile. The container image sets 25s."`
	SaveTimeout      time.Duration  `env:"SAVE_TIMEOUT" envDefault:"30s" doc:"How long, after DRAIN_TIMEOUT, the worker waits at a shutdown until its browsers have ended, the data of their persistent profiles is saved and their recordings are in RECORDINGS_URL. Then the saves are canceled: the last saved versions stay, and the log has the profiles that were not saved. Uploads of recordings continue at the next start with this DATA_DIR."`
	FreezeIdle       int            `env:"FREEZE_IDLE_SECONDS" envDefault:"0" doc:"Freeze a browser that no client has used for this long, in seconds: without a CDP, WebDriver, MCP or live view connection, an open handover, a download in progress or a request. A frozen browser needs no CPU; its pages, timers and network connections stand still. It continues with the next connection or request. Do not set it if pages must go on working while no client is connected. It needs network namespaces; the worker logs a warning without them. 0: never."`
	ProfileStoreURL  string         `env:"PROFILE_STORE_URL" secret:"true" doc:"Object store for the browser data of persistent profiles, so that every worker of the organization can launch them: file:///PATH, s3://BUCKET?region=... or gs://BUCKET. All workers of the organization must have the same store. The data is encrypted with a key of the organization. Data that is already in DATA_DIR becomes the first version of a profile at its first launch on that worker, if there is no version yet. Unused objects are deleted once a day. Default: DATA_DIR of each worker."`
	DeniedHosts      string         `env:"DENIED_HOSTS" envDefault:"default" doc:"Networks and host names that browsers must not reach, separated by commas. default stands for the addresses of this host, including loopback, except ALLOWED_HOSTS; link-local addresses; cloud metadata services; this worker and the cloud API under any name. Debug ports of browsers, including those of other workers on this host, are always denied."`
	AllowedHosts     string         `env:"ALLOWED_HOSTS" doc:"Addresses of this host that browsers may reach, as destinations and as proxies: addresses, networks and host names, with a port or for all ports, separated by commas, such as 127.0.0.1:3000,localhost:8081,[::1]:8080. Does not allow anything else in DENIED_HOSTS, the port of a worker or the cloud API. Default: none."`
	DebugPortUsers   []string       `env:"DEBUG_PORT_USERS" doc:"Users of this host, by name or id, who may connect to the debug ports of browsers in addition to root and the worker's user, separated by commas."`
	ResumeSeconds    int            `env:"RESUME_SECONDS" envDefault:"30" doc:"How long a resumable CDP connection is kept after its socket was cut off, in seconds. 0: not kept."`
	LaunchDisk       int64          `env:"LAUNCH_DISK_MB" envDefault:"1024" doc:"Maximum size of the files of a launch, and of its shared memory, in megabytes each. 0: no limit. If launches have private files, the files are in memory."`
	LaunchFiles      int64          `env:"LAUNCH_FILES_MB" envDefault:"4096" doc:"Maximum size of the downloads and uploads of a launch together, in megabytes. They are on the disk of DATA_DIR, not in LAUNCH_DISK_MB. Further uploads are refused, further downloads are canceled. 0: no limit."`
	FilesRetention   time.Duration  `env:"FILES_RETENTION" envDefault:"168h" doc:"How long the files of a launch with browser.keepFiles, and recordings, are kept after its end, on disk and in RECORDINGS_URL. If DATA_DIR has less than 200 MB of free space, the oldest on disk are removed earlier. 0: launches with browser.keepFiles or browser.record are rejected."`
	RecordingsURL    string         `env:"RECORDINGS_URL" secret:"true" doc:"Object store for ended recordings (browser.record): file:///PATH, s3://BUCKET?region=... or gs://BUCKET. A recording is uploaded in the background and then removed from DATA_DIR. The worker serves it from the store, as does every worker with the same store, SVC_KEY and API_KEY. Failed uploads are repeated, also after a restart, as long as the recording is in DATA_DIR (FILES_RETENTION). Default: recordings stay in DATA_DIR."`
	LaunchMemory     int64          `env:"LAUNCH_MEMORY_MB" envDefault:"0" doc:"Maximum memory of a launch, including its files, in megabytes. A browser that exceeds it is killed. 0: no limit."`
	RequireIsolation bool           `env:"REQUIRE_ISOLATION" envDefault:"false" doc:"Refuse to start if this host does not allow to separate launches: pidNamespace, networkNamespace, mountNamespace, privateFiles and sandbox. Otherwise the missing features are reported and left out. The images set it."`
	AllowNoSandbox   bool           `env:"ALLOW_NO_SANDBOX" envDefault:"false" doc:"Launch browsers even if this host does not allow Chromium's sandbox, unless REQUIRE_ISOLATION is set. Clients of such a browser can read everything that the browser process can."`
	FrameAncestors   []string       `env:"VIEW_FRAME_ANCESTORS" doc:"Origins whose pages may embed the live view in a frame, separated by commas, such as https://app.example.com or https://*.example.com. Requires https, except on localhost. Default: none."`
	TrustedProxies   []netip.Prefix `env:"TRUSTED_PROXIES" doc:"Networks of load balancers whose X-Forwarded-For header is trusted, separated by commas."`
	ChromeDriver     string         // path of a chromedriver that replaces the one in PATH; for tests
	Lifetimes        lifetimes
	Metrics          metrics.Config
	Traces           tracing.Config
	Logging          program.Logging
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
