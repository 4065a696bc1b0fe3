package proof_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/shared/fault"
)

// message is a call, which may be repeated: its effect on the model, in atomic steps,
// and on the service. Before an authorize and a start the model reclaims expired
// slots.
type message interface {
	steps() []step
	send(ctx context.Context, s *testEnv, r *replica) answer
}

// step is skipped once its call has a verdict.
type step func(m *model, a *answer)

// answer is the result of a call.
type answer struct {
	verdict                     string
	count                       string // the returned count; compared only for sequential calls
	accepted, released, unknown []session

	created, late, allHeardOf bool // state of the model between the steps of a call
	carried                   bool // likewise: the carried end concerns a session that holds a slot
	joined                    bool // likewise: the call is in the queue
	noProfileToo              bool // both limits are reached: either may be returned
	err                       error
}

// is compares with the model's answer, except for the counts, which depend on
// concurrent calls.
func (a answer) is(b answer) bool {
	same := a.verdict == b.verdict || b.noProfileToo && a.verdict == "profile_limit" || b.verdict == "gone" && slices.Contains([]string{"not found", "unauthenticated", "error"}, a.verdict)
	return same && slices.Equal(sorted(a.accepted), sorted(b.accepted)) &&
		slices.Equal(sorted(a.released), sorted(b.released)) && slices.Equal(sorted(a.unknown), sorted(b.unknown))
}

func (a answer) String() string {
	text := a.verdict
	if a.count != "" {
		text += " (" + a.count + ")"
	}
	for name, list := range map[string][]session{"accepted": a.accepted, "released": a.released, "unknown": a.unknown} {
		if len(list) > 0 {
			text += fmt.Sprintf(" %s %v", name, sorted(list))
		}
	}
	if a.err != nil {
		text += ": " + a.err.Error()
	}
	return text
}

func sorted(names []session) []session {
	return slices.Sorted(slices.Values(names))
}

// failed converts an error into an answer.
func failed(err error) answer {
	for kind, verdict := range map[fault.Kind]string{
		fault.Unauthenticated: "unauthenticated", fault.Conflict: "conflict",
		fault.NotFound: "not found", fault.PaymentRequired: "no slot",
	} {
		if !fault.Is(err, kind) {
			continue
		}
		a := answer{verdict: verdict}
		if f := fault.From(err); kind == fault.PaymentRequired && len(f.Details) == 1 {
			limit, _ := f.Details[0].Constraint["limit"].(*int)
			a.count = count(f.Details[0].Constraint["current"], limit)
		}
		return a
	}
	return answer{verdict: "error", err: err}
}

func count(current any, limit *int) string {
	if limit == nil {
		return fmt.Sprintf("%v of -1", current)
	}
	return fmt.Sprintf("%v of %d", current, *limit)
}

// by runs a worker's step if its key is valid. The actual check is earlier, which
// matters only if the organization is removed meanwhile.
func by(key string, first step) step {
	return func(m *model, a *answer) {
		if m.authenticate(key, a); a.verdict == "" {
			first(m, a)
		}
	}
}

type authorize struct {
	key     string
	session session
	profile profile
	spec    bool // creates a profile for this launch
	machine machine
	boot    boot
	ended   *end // carried by the request
	waits   bool // in the queue, without waiting for the answer
}

func (q authorize) steps() []step {
	reserve := by(q.key, func(m *model, a *answer) { m.reserve(q, a) })
	if q.ended == nil {
		return []step{reserve}
	}
	return []step{
		by(q.key, func(m *model, a *answer) { m.findCarriedEnd(q, a) }),
		func(m *model, a *answer) { m.applyCarriedEnd(q, a) },
		reserve,
	}
}

func (q authorize) send(ctx context.Context, s *testEnv, r *replica) answer {
	caller, err := r.checks.Verify(ctx, s.secret(q.key))
	if err != nil {
		return failed(err)
	}
	req := license.Request{
		OrgID: caller.OrgID, KeyID: caller.KeyID, MachineID: string(q.machine), BootID: s.boot(q.boot), SessionID: s.id(string(q.session)),
	}
	if q.waits {
		req.Wait = time.Minute // Poll is 0
	}
	if q.ended != nil {
		req.Ends = []license.EndReport{q.ended.report(s, caller.OrgID)}
	}
	switch {
	case q.spec:
		req.NewProfile = func(ctx context.Context, tx *sqlx.Tx) (uuid.UUID, error) {
			return s.newProfile(ctx, tx, caller.OrgID, s.id(string(q.profile)))
		}
	case q.profile != "":
		req.ProfileID = new(s.id(string(q.profile)))
	}
	grant, err := r.Authorize(ctx, req)
	switch {
	case err != nil:
		return failed(err)
	case grant.Queued:
		return answer{verdict: "queued", count: fmt.Sprintf("place %d", grant.Position)}
	case !grant.Allowed:
		counts := count(grant.Current, grant.Limit)
		if grant.ProfileCount != nil {
			counts += fmt.Sprintf(", %d profiles", *grant.ProfileCount)
		}
		return answer{verdict: string(grant.Reason), count: counts}
	}
	s.recordSlot(q.session, grant.SlotID)
	return answer{verdict: "granted", count: count(grant.Current, grant.Limit)}
}

type start struct {
	key            string
	session        session
	profile        profile
	machine        machine
	boot           boot
	seq            int
	startedAt      int // second of the script
	tellsSlot      bool
	otherSlot      bool // reports a slot that is not the session's
	unknownProfile bool // of an organization that has no such profile
}

func (q start) steps() []step { return []step{by(q.key, func(m *model, a *answer) { m.start(q, a) })} }

func (q start) send(ctx context.Context, s *testEnv, r *replica) answer {
	caller, err := r.checks.Verify(ctx, s.secret(q.key))
	if err != nil {
		return failed(err)
	}
	report := license.StartReport{
		OrgID: caller.OrgID, KeyID: caller.KeyID, ProfileID: s.id(string(q.profile)), SessionID: s.id(string(q.session)),
		MachineID: string(q.machine), BootID: s.boot(q.boot), Seq: int64(q.seq), LaunchID: uuid.New(), BrowserVersion: 156,
		StartedAt: s.moment(q.startedAt),
		RequireProfile: func(context.Context, *sqlx.Tx) error {
			if q.unknownProfile {
				return fault.Missing("profile")
			}
			return nil
		},
	}
	switch {
	case q.otherSlot:
		report.SlotID = new(uuid.New())
	case q.tellsSlot:
		report.SlotID = s.slotOf(q.session)
	}
	if _, err := r.Start(ctx, report); err != nil {
		return failed(err)
	}
	return answer{verdict: "running"}
}

type end struct {
	key     string
	session session
	profile profile
	status  string
	reason  string
}

func (q end) steps() []step { return []step{by(q.key, func(m *model, a *answer) { m.end(q, a) })} }

func (q end) send(ctx context.Context, s *testEnv, r *replica) answer {
	caller, err := r.checks.Verify(ctx, s.secret(q.key))
	if err != nil {
		return failed(err)
	}
	ended, err := r.End(ctx, q.report(s, caller.OrgID))
	if err != nil {
		return failed(err)
	}
	return answer{verdict: "ended " + string(*ended.EndReason)}
}

func (q end) report(s *testEnv, orgID uuid.UUID) license.EndReport {
	return license.EndReport{
		OrgID: orgID, ProfileID: s.id(string(q.profile)), SessionID: s.id(string(q.session)),
		Status: license.Status(q.status), EndReason: license.EndReason(q.reason), EndedAt: new(time.Now()),
	}
}

type heartbeat struct {
	key      string
	machine  machine
	boot     boot
	seq      int
	sessions []session // distinct
}

func (q heartbeat) steps() []step {
	return []step{
		by(q.key, func(m *model, a *answer) { m.applyHeartbeat(q, a) }),
		func(m *model, a *answer) { m.findUnknown(q, a) },
		func(m *model, a *answer) { m.reconcile(q, a) },
	}
}

func (q heartbeat) send(ctx context.Context, s *testEnv, r *replica) answer {
	caller, err := r.checks.Verify(ctx, s.secret(q.key))
	if err != nil {
		return failed(err)
	}
	ids := s.ids(q.sessions)
	if len(ids) > 0 {
		ids = append(ids, ids[0]) // duplicates are ignored
	}
	got, err := r.Heartbeat(ctx, license.HeartbeatReport{
		OrgID: caller.OrgID, MachineID: string(q.machine), BootID: s.boot(q.boot), Seq: int64(q.seq), Sessions: ids,
	})
	switch {
	case err != nil:
		return failed(err)
	case !got.Applied:
		return answer{verdict: "ignored"}
	}
	return answer{verdict: "applied", accepted: s.names(got.Accepted), released: s.names(got.Released), unknown: s.names(got.Unknown)}
}

func done(err error) answer {
	if err != nil {
		return failed(err)
	}
	return answer{verdict: "done"}
}

// wrongSQL reports whether an error means that a mutation is not valid SQL.
func wrongSQL(err error) bool {
	e, ok := errors.AsType[*pq.Error](err)
	return ok && strings.HasPrefix(string(e.Code), "42")
}
