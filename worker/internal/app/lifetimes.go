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
	Idle          time.Duration `env:"IDLE_TIMEOUT" envDefault:"0s" doc:"How long a session runs without client activity if neither its launch nor its profile says. 0: no limit, but 5 minutes for WebDriver."`
	IdleLimit     time.Duration `env:"IDLE_TIMEOUT_LIMIT" envDefault:"0s" doc:"Longest idle timeout that can be set; also the default without IDLE_TIMEOUT. 0: any."`
	Max           time.Duration `env:"MAX_DURATION" envDefault:"0s" doc:"How long a session runs if neither its launch nor its profile says. 0: no limit."`
	MaxLimit      time.Duration `env:"MAX_DURATION_LIMIT" envDefault:"0s" doc:"Longest duration that can be set; also the default without MAX_DURATION. 0: any."`
	Connect       time.Duration `env:"CONNECT_TIMEOUT" envDefault:"0s" doc:"How long a browser waits for its first client if its launch does not say. 0: no limit; the image sets 5m."`
	WebDriverIdle time.Duration // replaces webDriverIdle; for tests
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
