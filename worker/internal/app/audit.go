package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/data/audit"
	"github.com/browser-svc/svc/worker/internal/media/interaction"
	"github.com/browser-svc/svc/worker/internal/media/recording"
	"github.com/browser-svc/svc/worker/internal/session"
)

// auditActions is the value of AUDIT that enables activity logs.
const auditActions = "actions"

// openAudit opens the store of activity logs, if AUDIT enables them.
func (w *worker) openAudit() (err error) {
	counted := audit.NewMetrics(w.metrics) // exported from the start
	if w.config.Audit != "" {
		w.audit, err = audit.Open(audit.Options{
			Dir: filepath.Join(w.dir, "audit"), Retention: w.config.FilesRetention, Clock: clock.System{}, Logger: w.logger, Metrics: counted,
		})
	}
	return err
}

// startAuditSweep removes expired activity logs until stop is called.
func (w *worker) startAuditSweep() (stop func()) {
	if w.audit == nil {
		return func() {}
	}
	return background(w.audit.Run)
}

// actionLog returns the function that creates the activity log of a session; nil without
// AUDIT. The log is sealed with the organization key to which the session is charged.
func (w *worker) actionLog() func(session.Session) (*audit.Log, error) {
	if w.audit == nil {
		return nil
	}
	return func(s session.Session) (*audit.Log, error) {
		key, err := audit.NewKey(cmp.Or(s.OrganizationKey.Reveal(), w.config.organizationKey()))
		if err != nil {
			return nil, err
		}
		return w.audit.Create(key, s.StartedAt, audit.Start{
			SessionID: s.ID, LaunchID: s.LaunchID, ProfileID: s.ProfileID, MachineID: w.machine.ID, WorkerVersion: program.Version,
			BrowserVersion: s.BrowserVersion, Engine: s.Engine,
		})
	}
}

// logActions adds the navigations and clicks of a browser to its activity log, until the
// browser ends. Navigations come from the worker's own connection.
func (w *worker) logActions(launchID uuid.UUID, b access.Browser) {
	running, ok := w.launches.Running(launchID)
	if !ok {
		return
	}
	log := running.Actions
	tabs := recording.NewTabs(func(e recording.Event) {
		if e = e.Clean(); e.Kind == recording.Navigation {
			log.Add(e.At, audit.Navigation{TargetID: e.TargetID, URL: e.URL})
		}
	})
	log.Follow("tabs", b.Done, func(ctx context.Context, ready func()) error {
		conn := running.Browser.CDP() // it has the events of tabs anyway
		changes := subscribeTabs(conn)
		defer changes.Close()
		var listed struct{ TargetInfos []tabInfo }
		if err := conn.Call(ctx, "", "Target.getTargets", nil, &listed); err != nil {
			return err
		}
		ready()
		changed := map[string]bool{} // tabs with events that may be later than the list
		for queued := len(changes.Events()); queued > 0; queued-- {
			changed[updateTabs(tabs, <-changes.Events())] = true
		}
		for _, tab := range listed.TargetInfos {
			if tab.isTab() && !changed[tab.TargetID] {
				tabs.Seen(tab.TargetID, tab.URL)
			}
		}
		return readTabs(ctx, changes, tabs)
	})
	log.Follow("clicks", b.Done, func(ctx context.Context, ready func()) error {
		return w.followActions(ctx, b, interaction.Follower{Ready: ready, Begin: func(kind interaction.Kind) func(interaction.Action) {
			if kind != interaction.Click {
				return func(interaction.Action) {}
			}
			add := log.Reserve(audit.Click{}) // what the click causes comes after it
			return func(a interaction.Action) {
				e := eventOf(a).Clean()
				add(e.At, audit.Click{TargetID: e.TargetID, Role: e.Role, Name: e.Name})
			}
		}})
	})
}

// auditCommand works with activity logs.
func auditCommand(out io.Writer) program.Command[Config] {
	var path string
	return program.Command[Config]{
		Name: "audit", Summary: "Verify activity logs of sessions (AUDIT)",
		Commands: []program.Command[Config]{{
			Name: "verify", Summary: "Check that an activity log is complete and was not changed",
			Detail: "Checks the hash of each line and the seal of the last one, and shows what the log contains. Requires in SVC_KEY, or in the\n" +
				"file SVC_KEY_FILE, the organization key of the session. Exits with 1 and the first wrong line if the log was\n" +
				"changed, and if it has no seal, because its session still runs, its worker was killed, or its end was removed.",
			Args: []program.Arg{{Name: "FILE", Doc: "The log, such as DATA_DIR/audit/SESSION_ID.jsonl", Value: &path}},
			Run: func(_ context.Context, config Config, _ *slog.Logger) error {
				return config.verifyAudit(path, out)
			},
		}},
	}
}

func (c Config) verifyAudit(path string, out io.Writer) error {
	if c.organizationKey() == "" {
		return errors.New("SVC_KEY is not set: the seal is verified with the organization key of the session")
	}
	key, err := audit.NewKey(c.organizationKey())
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	report, failure := audit.Verify(file, key)
	if report.Entries > 0 {
		if err := report.Write(out); err != nil {
			return err
		}
	}
	if failure != nil {
		return fmt.Errorf("%s: %w", path, failure)
	}
	return nil
}
