package har

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/browser-svc/svc/worker/internal/cdp"
)

// newCollector returns a collector whose connection gets messages from a test, and the entries that it has after end.
func newCollector(t *testing.T, queue int) (c *collector, events *cdp.Subscription, send func(method, params string), entries func() []Entry) {
	t.Helper()
	input, messages := io.Pipe()
	answers, output := io.Pipe()
	go func() { _, _ = io.Copy(io.Discard, answers) }()
	conn := cdp.New(input, output)
	t.Cleanup(func() { _ = conn.Close() })
	c = &collector{
		conn: conn, ctx: t.Context(), calls: t.Context(), sessions: map[string]*session{}, chains: map[string]*chain{},
		out: make(chan item, outQueue), bodies: make(chan *exchange, bodyQueue),
	}
	events = conn.Subscribe(queue, methods()...)
	received := conn.Subscribe(queue + 1000)
	send = func(method, params string) {
		if _, err := fmt.Fprintf(messages, `{"method":%q,"sessionId":"s","params":%s}`+"\x00", "Network."+method, params); err != nil {
			t.Error(err)
		}
		<-received.Events()
	}
	return c, events, send, func() (list []Entry) {
		close(c.bodies)
		for x := range c.bodies {
			c.deliver(x)
		}
		close(c.out)
		c.write(func(e Entry) { list = append(list, e) })
		return list
	}
}

// collectEvents handles events until the end of the browser.
func collectEvents(t *testing.T, sent ...[2]string) []Entry {
	t.Helper()
	c, events, send, entries := newCollector(t, 100)
	for _, event := range sent {
		send(event[0], event[1])
	}
	ended := make(chan error, 1)
	go func() { ended <- c.follow(t.Context(), events) }()
	if err := events.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	go func() { _ = c.conn.Close() }()
	if err := <-ended; !errors.Is(err, cdp.ErrClosed) {
		t.Errorf("got %v", err)
	}
	return entries()
}

const (
	requestEvent  = `{"requestId":"1","timestamp":10,"wallTime":1e9,"type":"Fetch","request":{"url":"http://site/a","method":"GET","headers":{"Plain":"first"}}}`
	responseEvent = `{"requestId":"1","timestamp":11,"type":"Fetch","hasExtraInfo":true,"response":{"status":200,"headers":{"plain":"yes"},"mimeType":"text/plain","protocol":"h2"}}`
	finishedEvent = `{"requestId":"1","timestamp":12,"encodedDataLength":9}`
)

// TestCollect_MatchesHeadersOnTheWire sends the events of a request in different orders.
func TestCollect_MatchesHeadersOnTheWire(t *testing.T) {
	const (
		sent    = `{"requestId":"1","headers":{"Wire":"sent","Cookie":"secret"}}`
		got     = `{"requestId":"1","statusCode":200,"headers":{"wire":"got","set-cookie":"secret"}}`
		refused = `{"requestId":"1","statusCode":401,"headers":{"wire":"refused"}}`
		cached  = `{"requestId":"1","statusCode":304,"headers":{"wire":"cached"}}`
	)
	request, response, finished := [2]string{"requestWillBeSent", requestEvent}, [2]string{"responseReceived", responseEvent}, [2]string{"loadingFinished", finishedEvent}
	requestExtra, responseExtra := [2]string{"requestWillBeSentExtraInfo", sent}, [2]string{"responseReceivedExtraInfo", got}
	for name, tc := range map[string]struct {
		events []([2]string)
		want   string
	}{
		"in order":          {[][2]string{request, requestExtra, response, responseExtra, finished}, "Wire sent, wire got"},
		"before":            {[][2]string{requestExtra, request, responseExtra, response, finished}, "Wire sent, wire got"},
		"after":             {[][2]string{request, response, finished, responseExtra, requestExtra}, "Wire sent, wire got"},
		"never":             {[][2]string{request, response, finished}, "Plain first, plain yes"},
		"second attempt":    {[][2]string{request, requestExtra, {"responseReceivedExtraInfo", refused}, requestExtra, responseExtra, response, finished}, "Wire sent, wire got"},
		"a cached response": {[][2]string{request, requestExtra, {"responseReceivedExtraInfo", cached}, response, finished}, "Wire sent, plain yes"},
		"reported twice":    {[][2]string{request, requestExtra, response, request, responseExtra, finished, request}, "Wire sent, wire got"},
	} {
		t.Run(name, func(t *testing.T) {
			entries := collectEvents(t, tc.events...)
			if len(entries) != 1 {
				t.Fatalf("got %+v", entries)
			}
			e := entries[0]
			var all []string
			for _, f := range append(e.Request.Headers, e.Response.Headers...) {
				all = append(all, f.Name+" "+f.Value)
			}
			if text := strings.Join(all, ", "); text != tc.want || e.Response.HTTPVersion != "HTTP/2.0" || e.Comment != "" {
				t.Errorf("got %q in %+v", text, e)
			}
		})
	}
}

// TestCollect_RecoversDocument has no event of the request.
func TestCollect_RecoversDocument(t *testing.T) {
	const response = `{"requestId":"1","loaderId":"1","timestamp":11,"type":"Document","hasExtraInfo":true,"response":{"url":"http://site/a","status":200,"headers":{"plain":"yes"}}}`
	entries := collectEvents(t, [2]string{"responseReceived", response}, [2]string{"loadingFinished", finishedEvent})
	if len(entries) != 1 || entries[0].Request.URL != "http://site/a" || entries[0].Response.Status != 200 || !strings.Contains(entries[0].Comment, "was not seen") {
		t.Errorf("got %+v", entries)
	}
	if entries := collectEvents(t, [2]string{"responseReceived", responseEvent}, [2]string{"loadingFinished", finishedEvent}); len(entries) > 0 {
		t.Errorf("a part of a request has the entries %+v", entries)
	}
}

// TestCollect_MarksMissedEvents loses events while a request runs.
func TestCollect_MarksMissedEvents(t *testing.T) {
	c, events, send, entries := newCollector(t, 1)
	missed := 0
	c.Missed = func() { missed++ }
	for _, event := range [][2]string{{"requestWillBeSent", requestEvent}, {"responseReceived", responseEvent}, {"loadingFinished", finishedEvent}} {
		send(event[0], event[1])
	}
	if err := c.follow(context.Background(), events); !errors.Is(err, cdp.ErrLagged) {
		t.Errorf("got %v", err)
	}
	list := entries()
	if len(list) != 1 || list[0].Response.Status != 0 || !strings.Contains(list[0].Comment, "events were missed") || missed == 0 {
		t.Errorf("missed %d: %+v", missed, list)
	}
}

// TestCollect_LeavesOutBodiesUnderLoad has more bodies than the browser is asked for.
func TestCollect_LeavesOutBodiesUnderLoad(t *testing.T) {
	c, _, _, entries := newCollector(t, 1)
	for i := range bodyQueue + 10 {
		c.finish(&exchange{id: fmt.Sprint(i), kind: "Fetch", request: requestData{URL: "http://site/", Method: "GET"}, response: &responseData{Status: 200}})
	}
	busy := 0
	for _, e := range entries() {
		if e.Response.Content.Comment == bodyBusy && e.Response.Content.Text == "" {
			busy++
		}
	}
	if busy != 10 || c.pending.Load() != 0 {
		t.Errorf("%d bodies were left out, and %d bytes are reserved", busy, c.pending.Load())
	}
}

// TestCollect_EndsInTime has more bodies than are requested at the same time, and a browser that does not answer.
func TestCollect_EndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		input, messages := io.Pipe()
		answers, output := io.Pipe()
		conn := cdp.New(input, output)
		ready := make(chan struct{})
		go func() {
			commands := bufio.NewReader(answers)
			_, _ = commands.ReadString(0) // Target.setAutoAttach
			_, _ = fmt.Fprint(messages, `{"id":1,"result":{}}`+"\x00")
			_, _ = io.Copy(io.Discard, commands)
		}()
		ctx, cancel := context.WithCancel(t.Context())
		count, ended := 0, make(chan struct{})
		go func() {
			defer close(ended)
			_ = Collect(ctx, conn, Options{Ready: func() { close(ready) }}, func(Entry) { count++ })
		}()
		<-ready
		for i := range 10 * bodyWorkers {
			for _, e := range [][2]string{{"requestWillBeSent", requestEvent}, {"responseReceived", strings.Replace(responseEvent, "true", "false", 1)}, {"loadingFinished", finishedEvent}} {
				_, _ = fmt.Fprintf(messages, `{"method":"Network.%s","sessionId":"s","params":%s}`+"\x00", e[0], strings.Replace(e[1], `"1"`, fmt.Sprintf(`"%d"`, i), 1))
			}
		}
		synctest.Wait()
		began := time.Now()
		cancel()
		<-ended
		if took := time.Since(began); count != 10*bodyWorkers || took > bodyTimeout {
			t.Errorf("%d entries after %v", count, took)
		}
		_ = conn.Close()
	})
}

// TestCollect_LimitsRequests has many requests with long bodies that get no response.
func TestCollect_LimitsRequests(t *testing.T) {
	c, _, _, entries := newCollector(t, 1)
	const count = maxPending/MaxPost + 10
	for i := range count {
		p := networkEvent{RequestID: fmt.Sprint(i), Request: requestData{URL: "http://site/", Method: "POST", HasPostData: true, PostData: strings.Repeat("a", MaxPost)}}
		p.Request.PostDataEntries = []struct{ Bytes []byte }{{[]byte(p.Request.PostData)}}
		c.network("s", "Network.requestWillBeSent", p)
	}
	if reserved := c.pending.Load(); reserved < maxPending-MaxPost || reserved > maxPending+count*100 {
		t.Errorf("%d bytes are reserved", reserved)
	}
	c.endAll("")
	missing := 0
	for _, e := range entries() {
		if e.Request.PostData.Text == "" {
			missing++
		}
	}
	if missing < 10 || missing > 12 || c.pending.Load() != 0 {
		t.Errorf("%d bodies are missing, and %d bytes are reserved", missing, c.pending.Load())
	}
}

// TestCollect_LimitsMessagesOfSockets has many WebSockets with long messages, and a body.
func TestCollect_LimitsMessagesOfSockets(t *testing.T) {
	c, _, _, entries := newCollector(t, 1)
	message := networkEvent{Response: &responseData{PayloadData: strings.Repeat("a", maxSocketBytes)}}
	for range maxPending/maxSocketBytes + 2 {
		x := &exchange{socket: &socket{}}
		c.addMessage(x, "send", message)
		c.finish(x)
	}
	body := &exchange{request: requestData{Method: "GET"}, response: &responseData{Status: 200}}
	if c.skipsBody(body) || c.sockets.Load() != maxPending {
		t.Errorf("the body is skipped: %q, with %d bytes of sockets", body.noBody, c.sockets.Load())
	}
	c.release(body)
	missing := 0
	for _, e := range entries() {
		if strings.Contains(e.Comment, "Later messages are missing") {
			missing++
		}
	}
	if missing != 2 || c.pending.Load() != 0 || c.sockets.Load() != 0 {
		t.Errorf("%d sockets were cut, and %d and %d bytes are reserved", missing, c.pending.Load(), c.sockets.Load())
	}
}

// TestCollect_RemovesSecretsFromTitles has a secret that was filled after the page was opened.
func TestCollect_RemovesSecretsFromTitles(t *testing.T) {
	c, _, _, entries := newCollector(t, 1)
	var pages []string
	c.Secrets, c.Page = func() []string { return []string{"1234"} }, func(p Page) { pages = append(pages, p.Title) }
	opened := Page{Title: "https://user:key@site/1234?id_token=x#1234"}
	c.emit(item{page: &opened})
	if entries(); len(pages) != 1 || pages[0] != "https://site/***?id_token=***" || !strings.Contains(opened.Title, "1234") {
		t.Errorf("got %v", pages)
	}
}

func TestRedactor(t *testing.T) {
	secrets := NewRedactor([]string{`p w"<+é`, "1234", "ab"})
	for _, tc := range []struct{ kind, text, want string }{
		{"application/x-www-form-urlencoded", "a=p+w%22%3C%2B%C3%A9&b=x1234y&c=ab&d=abc&Old-Password=x&pass=", "a=***&b=x***y&c=***&d=abc&Old-Password=***&pass="},
		{"application/json", `{"user":"p w\"<+é","new_password" : "a\"b","pin":1234,"n":{"short":"ab"},"city":"Rome"}`, `{"user":"***","new_password" : "***","pin":***,"n":{"short":"***"},"city":"Rome"}`},
		{
			"multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"password\"\r\nContent-Type: text/plain\r\n\r\nsecret\r\n--x\r\nContent-Disposition: form-data; name=\"city\"\r\n\r\nRome\r\n--x--",
			"--x\r\nContent-Disposition: form-data; name=\"password\"\r\nContent-Type: text/plain\r\n\r\n***\r\n--x\r\nContent-Disposition: form-data; name=\"city\"\r\n\r\nRome\r\n--x--",
		},
		{"text/plain", `{"otp": 987654,"n":-1.5e3,"x":{"session_token":"a","apikey":1,"tokens":7}}`, `{"otp": "***","n":-1.5e3,"x":{"session_token":"***","apikey":"***","tokens":7}}`},
		{"application/x-www-form-urlencoded", "token=a&csrf_token=a&api-key=a&tokens=7", "token=***&csrf_token=***&api-key=***&tokens=7"},
		{"text/plain", "p w&#34;&lt;+é cCB3IjwrwqDDqQ== 1234", "*** cCB3IjwrwqDDqQ== ***"},
	} {
		if got, _ := secrets.posted(tc.text, tc.kind); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.kind, got, tc.want)
		}
	}
	if got := CleanURL("https://user:key@site:1/a/1234?b=1234&id_token=x&c=1#access", secrets); got != "https://site:1/a/***?b=***&id_token=***&c=1" {
		t.Errorf("the URL is %s", got)
	}
	headers := secrets.headers(fields(map[string]string{"Location": "//u:p@site/?b=1234&access_token=x#/a?id_token=y&b=1", "referer": "http://u:p@site/", "x-id": "1234#a"}))
	if got, want := fmt.Sprint(headers), "[{Location //site/?b=***&access_token=***#/a?id_token=***&b=1} {referer http://site/} {x-id ***#a}]"; got != want {
		t.Errorf("the headers are %s, want %s", got, want)
	}
	if got := secrets.data("MTIzNA==", true); got != "Kioq" {
		t.Errorf("the data is %s", got)
	}
	e, err := json.Marshal(fields(map[string]string{"Authorization": "x", "COOKIE": "x", "a": "1\n2"}))
	if err != nil || string(e) != `[{"name":"a","value":"1"},{"name":"a","value":"2"}]` {
		t.Errorf("the headers are %s", e)
	}
}
