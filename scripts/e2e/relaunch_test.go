package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/db/pg"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/shared/ws"
)

const (
	relaunchTime = 30 * time.Second
)

// relaunchLimit is the organization's limit. relaunchRounds is the total number of
// rounds of all cases, unless ROUNDS is set. Four rounds use each way to end a
// browser.
func relaunchLimit() int  { return testenv.Depth(3, 8) }
func relaunchRounds() int { return testenv.Depth(8*4, 8*8) }

// endFunc ends a browser in one of the ways of a client, and returns when the client
// has the response.
type endFunc func(ctx context.Context, round int) error

// TestRelaunch_SucceedsRightAfterEnd ends browsers of a full organization with
// DELETE, with Browser.close and by closing the socket of /launch, and immediately
// launches the next one, with one client and with as many clients as the limit. No
// launch may be refused because of the slot limit or the profile limit. The quick run
// has half of the combinations, with each pair of properties.
func TestRelaunch_SucceedsRightAfterEnd(t *testing.T) {
	t.Parallel()
	total, err := strconv.Atoi(cmp.Or(os.Getenv("ROUNDS"), strconv.Itoa(relaunchRounds())))
	if err != nil {
		t.Fatalf("ROUNDS: %v", err)
	}
	dsn := dbtest.NewDSN(t)
	s := newTestEnvOn(t, startCloud(t, "DATABASE_URL="+dsn))
	r := &relaunchTest{testEnv: s, database: dbtest.Open(t, dsn, pg.Options{MaxOpen: 1}), callers: s.cloud.signUp(t), version: s.worker.newestVersion(t)}
	for _, api := range []string{"REST", "launch"} {
		for _, spec := range []bool{false, true} {
			for _, clients := range []int{1, relaunchLimit()} {
				if !testenv.Full() && (api == "REST") != (spec == (clients > 1)) {
					continue
				}
				t.Run(fmt.Sprintf("%s,spec=%t,%d clients", api, spec, clients), func(t *testing.T) {
					r.run(t, api, spec, clients, (total+7)/8)
				})
			}
		}
	}
}

// relaunchTest keeps an organization at its limit.
type relaunchTest struct {
	testEnv
	database *sqlx.DB
	callers  *account // an account whose key is not the worker's own
	version  int32
}

// run keeps as many browsers running as the limit allows. Each round ends one
// browser and launches another.
func (r *relaunchTest) run(t *testing.T, api string, spec bool, clients, rounds int) {
	owner, launch := r.account, r.byREST
	if api == "launch" {
		owner, launch = r.callers, r.bySocket(r.callers.key)
	}
	body := r.request(t, owner, spec)
	running := make(chan endFunc, relaunchLimit())
	for range relaunchLimit() {
		end, err := launch(t, body)
		if err != nil {
			t.Fatal(err)
		}
		running <- end
	}
	if _, err := launch(t, body); err == nil || !strings.Contains(err.Error(), "402") {
		t.Fatalf("at the limit, a launch returned %v", err)
	}
	todo := make(chan int, rounds)
	for round := range rounds {
		todo <- round
	}
	close(todo)
	began := time.Now()
	var all sync.WaitGroup
	var mu sync.Mutex
	var failures []string
	for range clients {
		all.Go(func() {
			for round := range todo {
				if err := r.round(t, running, launch, body, round); err != nil {
					mu.Lock()
					failures = append(failures, fmt.Sprintf("round %d: %v", round, err))
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d of %d rounds failed, in %v", len(failures), rounds, time.Since(began).Round(time.Millisecond))
	if len(failures) > 0 {
		t.Errorf("%s", strings.Join(failures, "\n"))
	}
	for len(running) > 0 {
		if err := (<-running)(t.Context(), 0); err != nil {
			t.Error(err)
		}
	}
	owner.waitForSlots(t, 0, 20*time.Second)
}

// round ends a browser and launches another one. The launch must be allowed.
func (r *relaunchTest) round(t *testing.T, running chan endFunc, launch launchFunc, body string, round int) error {
	ctx, cancel := context.WithTimeout(t.Context(), relaunchTime)
	defer cancel()
	if err := (<-running)(ctx, round); err != nil {
		return fmt.Errorf("end a browser: %w", err)
	}
	next, err := launch(t, body)
	if err != nil {
		return err
	}
	running <- next
	return nil
}

// request returns the JSON of a launch. It sets the limits of the organization so
// that relaunchLimit browsers may run: the slot limit, or the profile limit if the
// launches create profiles from a spec.
func (r *relaunchTest) request(t *testing.T, owner *account, spec bool) string {
	t.Helper()
	if spec {
		r.setLimits(t, owner, owner.stats(t).TotalProfiles+int32(relaunchLimit()), 10*int32(relaunchLimit()))
		return fmt.Sprintf(`{"spec":{"browserVersion":%d},"browser":{"headless":true}}`, r.version)
	}
	r.setLimits(t, owner, 10*int32(relaunchLimit()), int32(relaunchLimit()))
	return fmt.Sprintf(`{"profileId":%q,"browser":{"headless":true}}`, owner.profile(t, cloudapi.CreateProfileRequest{BrowserVersion: r.version}))
}

func (r *relaunchTest) setLimits(t *testing.T, owner *account, profiles, slots int32) {
	t.Helper()
	owner.setLimit(t, r.database, int(profiles))
	if _, err := r.database.ExecContext(t.Context(), `UPDATE license_org SET max_slots = $1 WHERE organization_id = $2`, slots, owner.org); err != nil {
		t.Fatal(err)
	}
}

// launchFunc starts a browser and returns the function that ends it.
type launchFunc func(t *testing.T, body string) (endFunc, error)

// byREST launches with POST, and ends with DELETE or Browser.close.
func (r *relaunchTest) byREST(t *testing.T, body string) (endFunc, error) {
	answer, err := r.worker.api.LaunchProfileWithBodyWithResponse(t.Context(), "application/json", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if answer.JSON201 == nil {
		return nil, fmt.Errorf("a launch returned %d %s", answer.StatusCode(), answer.Body)
	}
	launched := answer.JSON201.Data
	return func(ctx context.Context, round int) error {
		if round%4 == 3 {
			return closeBrowser(ctx, *launched.WebSocketDebuggerUrl)
		}
		return r.worker.delete(ctx, launched)
	}, nil
}

func (w *worker) delete(ctx context.Context, s workerapi.BrowserSession) error {
	answer, err := w.api.KillBrowserSessionWithResponse(ctx, s.Id)
	if err == nil && answer.StatusCode() != http.StatusOK {
		err = fmt.Errorf("DELETE returned %d %s", answer.StatusCode(), answer.Body)
	}
	return err
}

// closeBrowser sends Browser.close and returns when the socket is closed.
func closeBrowser(ctx context.Context, endpoint string) error {
	conn, err := ws.Dial(ctx, endpoint, nil, ws.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	return closeBy(ctx, conn)
}

func closeBy(ctx context.Context, conn *ws.Conn) error {
	if err := conn.Write(ctx, ws.Text, []byte(`{"id":1,"method":"Browser.close"}`)); err != nil {
		return err
	}
	for {
		if _, _, err := conn.Read(ctx); err != nil {
			return ctx.Err()
		}
	}
}

// bySocket launches with /launch and a key, and ends the browser by closing the
// socket: with a close handshake, with Browser.close or without a handshake.
func (r *relaunchTest) bySocket(key string) launchFunc {
	return func(t *testing.T, body string) (endFunc, error) {
		environment := map[string]any{"SVC_KEY": key}
		var request map[string]any
		if err := json.Unmarshal([]byte(body), &request); err != nil {
			return nil, err
		}
		maps.Copy(environment, request)
		env, err := json.Marshal(environment)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(t.Context(), relaunchTime)
		defer cancel()
		conn, err := ws.Dial(ctx, "ws://"+r.worker.address+"/launch?env="+url.QueryEscape(string(env)), nil, ws.Options{})
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, round int) error {
			defer func() { _ = conn.CloseNow() }()
			switch ways := []string{"handshake", "at once", "handshake", "Browser.close"}; ways[round%len(ways)] {
			case "handshake":
				_ = conn.Close(ws.NormalClosure, "") // the browser may not answer the close frame
				return nil
			case "Browser.close":
				return closeBy(ctx, conn)
			}
			return nil
		}, nil
	}
}
