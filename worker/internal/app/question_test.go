package app_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// questions waits for this number of open questions.
func (h handovers) questions(t *testing.T, n int) (items []workerapi.HandoverQuestion) {
	t.Helper()
	testenv.Eventually(t, "the open questions", func() bool {
		items = decode[workerapi.HandoverQuestionListResponse](t, h.ask(t, "GET", "/handover/questions", "", 200)).Data.Items
		return len(items) == n
	})
	return items
}

func TestQuestions_RoutesAnswer(t *testing.T) {
	r := startTestWorker(t, cloudtest.New(t))
	s := r.session(t, "POST", "/sessions/profile", fmt.Sprintf(`{"profileId":%q,"browser":{"startUrls":["http://a.test/start"],"network":{"navigate":{"ask":["*.test"]}}}}`,
		r.cloud.Profile(r.version)))
	h := r.handovers(s)
	q := h.questions(t, 1)[0]
	if q.Url != "http://a.test/start" || q.Origin != "http://a.test" || q.Rule != "the rule navigate.ask: *.test of the launch" {
		t.Errorf("got %+v", q)
	}
	path := "/handover/questions/" + q.Id.String()
	for _, body := range []string{``, `{}`, `{"answer":"allow"}`, `{"answer":"once","x":1}`} {
		h.ask(t, "POST", path, body, 400)
	}
	h.ask(t, "POST", "/handover/questions/x", `{"answer":"once"}`, 400)
	h.ask(t, "GET", "/handover/questions", `{"x":1}`, 400)
	h.ask(t, "POST", path, `{}`, 415, "Content-Type", "text/plain")
	h.ask(t, "POST", path, strings.Repeat(" ", 1<<20+1), 413)
	h.ask(t, "POST", "/handover/questions/"+uuid.NewString(), `{"answer":"once"}`, 409)
	viewTicket := ticket.CookieName(s.LaunchId.String(), ticket.View) + "=" + r.viewTicket(t, s)
	for _, route := range [][3]string{{"GET", "/handover/questions", ""}, {"POST", path, `{"answer":"once"}`}} {
		for name, header := range map[string][2]string{"nothing": {"X-Svc-Token", "none"}, "a view ticket": {"Cookie", viewTicket}} {
			status, text := r.call(contracttest.AllowInvalidRequest(t.Context()), t, route[0], h.base+route[1], route[2], header[0], header[1])
			if status != 404 || string(text) != "unknown browser" {
				t.Errorf("%s %s with %s: got %d %s", route[0], route[1], name, status, text)
			}
		}
	}
	if listed := r.session(t, "GET", "/sessions/"+s.Id.String(), "").Questions; listed == nil || len(*listed) != 1 || (*listed)[0].Id != q.Id {
		t.Errorf("the session has the questions %+v", listed)
	}
	answered := decode[workerapi.HandoverQuestionResponse](t, h.ask(t, "POST", path, `{"answer":"refuse"}`, 200)).Data
	if answered.Id != q.Id || answered.Url != q.Url {
		t.Errorf("got %+v", answered)
	}
	h.questions(t, 0)
	h.ask(t, "POST", path, `{"answer":"refuse"}`, 409)
	testenv.Eventually(t, "the decision is logged", func() bool {
		return strings.Contains(r.log.String(), `msg="document waits no longer"`) && strings.Contains(r.log.String(), "decision=refuse")
	})
	if strings.Contains(r.log.String(), "/start") {
		t.Error("the log has the URL")
	}
}
