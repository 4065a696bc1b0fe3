package e2e

import (
	"net/http"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
	"github.com/browser-svc/svc/shared/testenv"
)

const (
	replicas  = 3
	callers   = 64
	slotLimit = 20
)

// rounds returns the number of races. Each race has its own organization.
func rounds() int { return testenv.Depth(2, 5) }

// cloudCluster contains replicas of the cloud that share one database.
type cloudCluster struct {
	clouds   []*cloud
	database *sqlx.DB
}

func newCloudCluster(t *testing.T) cloudCluster {
	t.Helper()
	dsn := dbtest.NewDSN(t)
	f := cloudCluster{database: dbtest.Open(t, dsn, pg.Options{MaxOpen: 1})}
	for range replicas {
		f.clouds = append(f.clouds, startCloud(t, "DATABASE_URL="+dsn))
	}
	return f
}

// signUp creates an account with slotLimit slots and profiles.
func (f cloudCluster) signUp(t *testing.T) *account {
	t.Helper()
	account := f.clouds[0].signUp(t)
	account.setLimit(t, f.database, slotLimit)
	return account
}

// setLimit sets the number of slots and profiles of the organization.
func (a *account) setLimit(t *testing.T, database *sqlx.DB, slots int) {
	t.Helper()
	for _, change := range []string{
		`UPDATE subscriptions SET base_profile_limit = $1 WHERE organization_id = $2`,
		`UPDATE license_org SET max_slots = $1 WHERE organization_id = $2`,
	} {
		result, err := database.ExecContext(t.Context(), change, slots, a.org)
		if err != nil {
			t.Fatal(err)
		}
		if rows, err := result.RowsAffected(); err != nil || rows != 1 {
			t.Fatalf("%s changed %d rows, %v", change, rows, err)
		}
	}
}

// apis returns one client for each replica, with the credential.
func (f cloudCluster) apis(t *testing.T, header, value string) []*cloudapi.ClientWithResponses {
	t.Helper()
	var apis []*cloudapi.ClientWithResponses
	for _, c := range f.clouds {
		apis = append(apis, c.api(t, header, value))
	}
	return apis
}

// callConcurrently calls do for all callers at the same time, distributed over the
// replicas and on open connections, and returns the responses.
func callConcurrently[T any](t *testing.T, apis []*cloudapi.ClientWithResponses, do func(api *cloudapi.ClientWithResponses) (T, error)) []T {
	t.Helper()
	answers := make([]T, callers)
	begin := make(chan struct{})
	var connecting, running sync.WaitGroup
	connecting.Add(callers)
	for i := range answers {
		running.Go(func() {
			if _, err := apis[i%len(apis)].GetCloudHealthWithResponse(t.Context()); err != nil {
				t.Error(err)
			}
			connecting.Done()
			<-begin
			var err error
			if answers[i], err = do(apis[i%len(apis)]); err != nil {
				t.Error(err)
			}
		})
	}
	connecting.Wait()
	close(begin)
	running.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return answers
}

func TestAuthorize_ConcurrentCallsStopExactlyAtLimit(t *testing.T) {
	t.Parallel()
	fleet := newCloudCluster(t)
	for range rounds() {
		account := fleet.signUp(t)
		profile := account.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: 156})
		apis, boot := fleet.apis(t, "X-API-Key", account.key), uuid.New()
		answers := callConcurrently(t, apis, func(api *cloudapi.ClientWithResponses) (*cloudapi.AuthorizeLaunchResult, error) {
			return api.AuthorizeLaunchWithResponse(t.Context(), cloudapi.AuthorizeRequest{
				MachineId: "worker-1", BootId: boot, SessionId: uuid.Must(uuid.NewV7()), ProfileId: &profile,
			})
		})
		assertAllowed(t, answers)
		for _, account.license = range apis {
			if charged := account.usage(t); charged.Current != slotLimit || charged.ReservedSlots != slotLimit || charged.RunningSessions != 0 {
				t.Errorf("charged %+v, want %d reserved slots", charged, slotLimit)
			}
		}
	}
}

// assertAllowed fails the test unless exactly slotLimit launches are allowed and
// the others are refused because of the limit.
func assertAllowed(t *testing.T, answers []*cloudapi.AuthorizeLaunchResult) {
	t.Helper()
	slots := map[uuid.UUID]bool{}
	allowed := 0
	for _, answer := range answers {
		if answer.JSON200 != nil && answer.JSON200.Data.Allowed {
			allowed++
			slots[*answer.JSON200.Data.SlotId] = true
			continue
		}
		requireAnswer(t, nil, answer, http.StatusPaymentRequired)
		refusal := answer.JSON402.Data
		if refusal.Allowed || *refusal.Reason != cloudapi.RefusalReasonConcurrencyLimit || refusal.Current != slotLimit || *refusal.Limit != slotLimit {
			t.Errorf("refused with %s", answer.Body)
		}
	}
	if allowed != slotLimit || len(slots) != slotLimit {
		t.Errorf("%d allowed with %d slots, want exactly %d", allowed, len(slots), slotLimit)
	}
}

func TestCreateProfile_ConcurrentCallsStopExactlyAtLimit(t *testing.T) {
	t.Parallel()
	fleet := newCloudCluster(t)
	for range rounds() {
		account := fleet.signUp(t)
		apis := fleet.apis(t, "Authorization", "Bearer "+account.token)
		answers := callConcurrently(t, apis, func(api *cloudapi.ClientWithResponses) (*cloudapi.CreateProfileResult, error) {
			return api.CreateProfileWithResponse(t.Context(), cloudapi.CreateProfileRequest{Name: "One of many", BrowserVersion: 156})
		})
		created := 0
		for _, answer := range answers {
			if answer.StatusCode() == http.StatusCreated {
				created++
				continue
			}
			requireAnswer(t, nil, answer, http.StatusForbidden)
			refusal := answer.JSON403.Error
			if refusal.Code != sharedapi.ErrorCodeAUTHORIZATIONERROR || refusal.Details == nil || len(*refusal.Details) != 1 {
				t.Fatalf("refused with %s", answer.Body)
			}
			assertBounds(t, (*refusal.Details)[0], slotLimit)
		}
		if created != slotLimit {
			t.Errorf("%d profiles created, want exactly %d", created, slotLimit)
		}
		if stats := account.stats(t); stats.TotalProfiles != slotLimit {
			t.Errorf("the organization has %d profiles", stats.TotalProfiles)
		}
	}
}
