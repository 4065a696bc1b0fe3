package app

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// lifetimes is the configuration of the lifetimes of sessions.
type lifetimes struct {
	Idle          time.Duration `env:"IDLE_TIMEOUT" envDefault:"0s" doc:"How long a session without client activity runs, if neither the launch (browser.idleTimeoutSeconds) nor its profile has a value. Read-only viewing is not activity. 0: IDLE_TIMEOUT_LIMIT, or no limit; for sessions of /wd/hub 5 minutes."`
	IdleLimit     time.Duration `env:"IDLE_TIMEOUT_LIMIT" envDefault:"0s" doc:"The longest idle timeout that a launch, a profile or PATCH /sessions/{sessionId} can set. A longer one, or none, is refused. 0: any."`
	WebDriverIdle time.Duration // replaces webDriverIdle; for tests
	Max           time.Duration `env:"MAX_DURATION" envDefault:"0s" doc:"How long a session runs, if neither the launch (browser.maxDurationSeconds) nor its profile has a value. 0: MAX_DURATION_LIMIT, or no limit."`
	MaxLimit      time.Duration `env:"MAX_DURATION_LIMIT" envDefault:"0s" doc:"The longest duration that a launch, a profile or PATCH /sessions/{sessionId} can set. A longer one, or none, is refused. 0: any."`
	Connect       time.Duration `env:"CONNECT_TIMEOUT" envDefault:"0s" doc:"End a browser that no client uses for this long after its start, if the launch has no value (browser.connectTimeoutSeconds): no CDP, WebDriver or MCP client, no viewer, and no request that acts on a page. Such a client has usually crashed after its launch. 0: no limit. The container image sets 5m."`
}

// maxLifetime is the longest limit that the API can represent.
const maxLifetime = 7 * 24 * time.Hour

// Validate checks the values. Values are whole seconds, as in the API.
func (c lifetimes) Validate() error {
	var problems []error
	for _, setting := range []struct {
		name  string
		value time.Duration
	}{
		{"IDLE_TIMEOUT", c.Idle}, {"IDLE_TIMEOUT_LIMIT", c.IdleLimit}, {"MAX_DURATION", c.Max},
		{"MAX_DURATION_LIMIT", c.MaxLimit}, {"CONNECT_TIMEOUT", c.Connect},
	} {
		if setting.value < 0 || setting.value > maxLifetime || setting.value%time.Second != 0 {
			problems = append(problems, fmt.Errorf("%s must be from 0 to 168h, in whole seconds", setting.name))
		}
	}
	for _, setting := range []struct {
		name         string
		value, limit time.Duration
		limitName    string
	}{
		{"IDLE_TIMEOUT", c.Idle, c.IdleLimit, "IDLE_TIMEOUT_LIMIT"}, {"MAX_DURATION", c.Max, c.MaxLimit, "MAX_DURATION_LIMIT"},
	} {
		if setting.limit > 0 && setting.value > setting.limit {
			problems = append(problems, fmt.Errorf("%s (%s) must not be greater than %s (%s)", setting.name, setting.value, setting.limitName, setting.limit))
		}
	}
	return errors.Join(problems...)
}

// rules returns the rules for launches. A limit is the default where none is set.
func (c lifetimes) rules() launch.LimitRules {
	highest := launch.Limits{Idle: c.IdleLimit, Max: c.MaxLimit}
	defaults := launch.Limits{Idle: cmp.Or(c.Idle, c.IdleLimit), Max: cmp.Or(c.Max, c.MaxLimit), Connect: c.Connect}
	return launch.LimitRules{Default: defaults, Highest: highest}
}

// webDriverIdle is the idle timeout of sessions of /wd/hub without IDLE_TIMEOUT: WebDriver
// clients that crash leave their sessions.
const webDriverIdle = 5 * time.Minute

// webDriver returns the idle timeout of sessions of /wd/hub.
func (c lifetimes) webDriver() time.Duration {
	idle := cmp.Or(c.WebDriverIdle, c.Idle, webDriverIdle)
	if c.IdleLimit > 0 {
		idle = min(idle, c.IdleLimit)
	}
	return idle
}
