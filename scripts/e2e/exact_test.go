package e2e

import (
	"net/http"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/sharedapi"
)

const (
	replicas = 3
	callers  = 64
	ceiling  = 20
)

// fleet starts replicas of the cloud on one database, with an account of that
// ceiling.
func fleet(t *testing.T) ([]*cloud, *account) {
	t.Helper()
	dsn := dbtest.NewDSN(t)
	var clouds []*cloud
	for range replicas {
		clouds = append(clouds, startCloud(t, "DATABASE_URL="+dsn))
	}
	account := clouds[0].signUp(t)
	database := dbtest.Open(t, dsn, pg.Options{MaxOpen: 1})
	for _, change := range []string{
		`UPDATE subscriptions SET base_profile_limit = $1 WHERE organization_id = $2`,
		`UPDATE license_org SET max_slots = $1 WHERE org_id = $2`,
	} {
		result, err := database.ExecContext(t.Context(), change, ceiling, account.org)
		if err != nil {
			t.Fatal(err)
		}
		if rows, err := result.RowsAffected(); err != nil || rows != 1 {
			t.Fatalf("%s changed %d rows, %v", change, rows, err)
		}
	}
	return clouds, account
}

// atOnce calls do for each caller at the same time, spread over the replicas,
// and returns the answers.
func atOnce[T any](t *testing.T, apis []*cloudapi.ClientWithResponses, do func(api *cloudapi.ClientWithResponses) (T, error)) []T {
	t.Helper()
	answers := make([]T, callers)
	begin := make(chan struct{})
	var running sync.WaitGroup
	for i := range answers {
		running.Go(func() {
			<-begin
			var err error
			if answers[i], err = do(apis[i%len(apis)]); err != nil {
				t.Error(err)
			}
		})
	}
	close(begin)
	running.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return answers
}

func TestParallelAuthorizationsOverThreeCloudsStopExactlyAtTheLimit(t *testing.T) {
	clouds, account := fleet(t)
	profile := account.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: 156})
	var apis []*cloudapi.ClientWithResponses
	for _, c := range clouds {
		apis = append(apis, c.api(t, "X-API-Key", account.key))
	}
	boot := uuid.New()
	answers := atOnce(t, apis, func(api *cloudapi.ClientWithResponses) (*cloudapi.AuthorizeLaunchResult, error) {
		return api.AuthorizeLaunchWithResponse(t.Context(), cloudapi.AuthorizeRequest{
			MachineId: "worker-1", BootId: boot, SessionId: uuid.Must(uuid.NewV7()), ProfileId: &profile,
		})
	})
	allowed, slots := 0, map[uuid.UUID]bool{}
	for _, answer := range answers {
		switch {
		case answer.JSON200 != nil && answer.JSON200.Data.Allowed:
			allowed++
			slots[*answer.JSON200.Data.SlotId] = true
		case answer.JSON402 == nil:
			t.Errorf("answered %d: %s", answer.StatusCode(), answer.Body)
		default:
			refusal := answer.JSON402.Data
			if refusal.Allowed || *refusal.Reason != cloudapi.RefusalReasonConcurrencyLimit || refusal.Current != ceiling || *refusal.Limit != ceiling {
				t.Errorf("refused with %s", answer.Body)
			}
		}
	}
	if allowed != ceiling || len(slots) != ceiling {
		t.Errorf("%d allowed with %d slots, want exactly %d", allowed, len(slots), ceiling)
	}
	for _, c := range clouds {
		account.license = c.api(t, "X-API-Key", account.key)
		if charged := account.charged(t); charged.Current != ceiling || charged.ReservedSlots != ceiling || charged.RunningSessions != 0 {
			t.Errorf("charged %+v, want %d reserved slots", charged, ceiling)
		}
	}
}

func TestParallelProfileCreationsOverThreeCloudsStopExactlyAtTheLimit(t *testing.T) {
	clouds, account := fleet(t)
	var apis []*cloudapi.ClientWithResponses
	for _, c := range clouds {
		apis = append(apis, c.api(t, "Authorization", "Bearer "+account.token))
	}
	answers := atOnce(t, apis, func(api *cloudapi.ClientWithResponses) (*cloudapi.CreateProfileResult, error) {
		return api.CreateProfileWithResponse(t.Context(), cloudapi.CreateProfileRequest{Name: "One of many", BrowserVersion: 156})
	})
	created := 0
	for _, answer := range answers {
		if answer.StatusCode() == http.StatusCreated {
			created++
			continue
		}
		answered(t, nil, answer, http.StatusForbidden)
		refusal := answer.JSON403.Error
		if refusal.Code != sharedapi.ErrorCodeAUTHORIZATIONERROR || refusal.Details == nil || len(*refusal.Details) != 1 {
			t.Fatalf("refused with %s", answer.Body)
		}
		assertBounds(t, (*refusal.Details)[0], ceiling)
	}
	if created != ceiling {
		t.Errorf("%d profiles created, want exactly %d", created, ceiling)
	}
	if stats := account.stats(t); stats.TotalProfiles != ceiling {
		t.Errorf("the organization has %d profiles", stats.TotalProfiles)
	}
}
