package app

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// lifetimes is the configuration of the lifetimes of sessions.
type lifetimes struct {
	Idle          []time.Duration `env:"IDLE_TIMEOUT" envDefault:"0s" doc:"How long a session runs without client activity if neither its launch nor its profile says; with a second value, such as 10m,1h, also the longest that they may say. 0: no limit, but 5 minutes for WebDriver."`
	Max           []time.Duration `env:"MAX_DURATION" envDefault:"0s" doc:"How long a session runs if neither its launch nor its profile says; with a second value, such as 2h,24h, also the longest that they may say. 0: no limit."`
	Connect       time.Duration   `env:"CONNECT_TIMEOUT" envDefault:"0s" doc:"How long a browser waits for its first client if its launch does not say. 0: no limit; the image sets 5m."`
	WebDriverIdle time.Duration   // replaces webDriverIdle; for tests
}

// maxLifetime is the longest limit that the API can represent.
const maxLifetime = 7 * 24 * time.Hour

// Validate checks the values. Values are whole seconds, as in the API.
func (c lifetimes) Validate() error {
	var problems []error
	for _, setting := range []struct {
		name   string
		values []time.Duration
		most   int // number of values
	}{
		{"IDLE_TIMEOUT", c.Idle, 2}, {"MAX_DURATION", c.Max, 2}, {"CONNECT_TIMEOUT", []time.Duration{c.Connect}, 1},
	} {
		invalid := func(value time.Duration) bool { return value < 0 || value > maxLifetime || value%time.Second != 0 }
		value, limit := pair(setting.values)
		switch {
		case len(setting.values) > setting.most:
			problems = append(problems, fmt.Errorf("%s must be the default, or the default and the longest value, such as 10m,1h", setting.name))
		case slices.ContainsFunc(setting.values, invalid):
			problems = append(problems, fmt.Errorf("%s must be from 0 to 168h, in whole seconds", setting.name))
		case limit > 0 && value > limit:
			problems = append(problems, fmt.Errorf("%s: the default (%s) must not be greater than the longest value (%s)", setting.name, value, limit))
		}
	}
	return errors.Join(problems...)
}

// rules returns the rules for launches. The longest value is the default where none is set.
func (c lifetimes) rules() launch.LimitRules {
	idle, longestIdle := pair(c.Idle)
	duration, longest := pair(c.Max)
	return launch.LimitRules{
		Default: launch.Limits{Idle: cmp.Or(idle, longestIdle), Max: cmp.Or(duration, longest), Connect: c.Connect},
		Highest: launch.Limits{Idle: longestIdle, Max: longest},
	}
}

// webDriverIdle is the idle timeout of sessions of /wd/hub without IDLE_TIMEOUT: WebDriver
// clients that crash leave their sessions.
const webDriverIdle = 5 * time.Minute

// webDriver returns the idle timeout of sessions of /wd/hub.
func (c lifetimes) webDriver() time.Duration {
	idle, longest := pair(c.Idle)
	idle = cmp.Or(c.WebDriverIdle, idle, webDriverIdle)
	if longest > 0 {
		idle = min(idle, longest)
	}
	return idle
}
