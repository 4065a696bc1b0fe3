package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"testing"
)

func TestFaults_EditsApply(t *testing.T) {
	all := allFaults(&seed{Owner: &user{}})
	if len(all) != 12 {
		t.Errorf("%d faults", len(all))
	}
	for _, f := range all {
		t.Run(f.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS("../../openapi")); err != nil {
				t.Fatal(err)
			}
			for _, e := range f.edits {
				if err := e.apply(dir); err != nil {
					t.Error(err)
				}
			}
			if _, err := loadDocuments(t.Context(), dir); err != nil {
				t.Error(err)
			}
			if len(f.edits) == 0 && f.tampering.request == nil && f.tampering.answer == nil {
				t.Error("the fault changes nothing")
			}
			if _, err := regexp.Compile(f.wantError); err != nil || f.wantError == "" {
				t.Errorf("invalid expression %q: %v", f.wantError, err)
			}
			if !slices.ContainsFunc(stages(), func(s stage) bool { return s.name == f.stage }) {
				t.Errorf("there is no stage %s", f.stage)
			}
		})
	}
}

func TestEdit_ErrorWhenTextIsMissing(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/a.yaml", []byte("one:\n  x: 1\ntwo:\n  x: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, e := range []edit{{"a.yaml", "three:", "x: 1", "x: 2"}, {"a.yaml", "one:", "x: 3", "x: 2"}, {"b.yaml", "one:", "x: 1", "x: 2"}} {
		if err := e.apply(dir); err == nil {
			t.Errorf("%v: no error", e)
		}
	}
	if err := (edit{"a.yaml", "two:", "x: 1", "x: 2"}).apply(dir); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(dir + "/a.yaml"); err != nil || string(text) != "one:\n  x: 1\ntwo:\n  x: 2\n" {
		t.Errorf("edited to %q, %v", text, err)
	}
}

func TestTamperResponse_MatchesPathAndStatus(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"true":1}`)
	}))
	defer server.Close()
	change := func(*http.Response, map[string]any) map[string]any { return map[string]any{"false": 0} }
	for path, want := range map[string]string{"/a/b": `{"false":0}`, "/b": `{"true":1}`} {
		client := http.Client{Transport: tamperingTransport{directTransport(), tamperResponse("/a/", http.StatusOK, change)}}
		answer, err := client.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || string(text) != want {
			t.Errorf("%s: %s, %v; want %s", path, text, err, want)
		}
	}
	client := http.Client{Transport: tamperingTransport{directTransport(), tamperResponse("/", http.StatusNotFound, change)}}
	answer, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); string(text) != `{"true":1}` {
		t.Errorf("another status: %s", text)
	}
}
