package launch_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// TestRecord_LaunchOverridesProfile launches with and without a list of its own.
func TestRecord_LaunchOverridesProfile(t *testing.T) {
	events, frames, requests := []string{"events"}, []string{"frames"}, []string{"har"}
	for _, tc := range []struct {
		name         string
		profile, own []string
		want         launch.Record
	}{
		{"nothing", nil, nil, launch.Record{}},
		{"the profile", events, nil, launch.Record{Events: true}},
		{"the launch", events, frames, launch.Record{Frames: true}},
		{"turned off", events, []string{}, launch.Record{}},
		{"turned on", []string{}, frames, launch.Record{Frames: true}},
		{"requests", events, requests, launch.Record{HAR: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got launch.Record
			r := newFixture(t, func(o *launch.Options) {
				o.KeepsFiles = true
				o.CannotRecord = func(launch.Record) string { return "" }
				o.RecordingURLs = func(uuid.UUID) (player, viewer string) { return "https://worker/player", "https://worker/viewer" }
				o.Launched = func(_ uuid.UUID, _ launch.Request, record launch.Record) string {
					got = record
					return ""
				}
			})
			r.cloud.profile.Settings.Record = tc.profile
			request := byProfile()
			request.Override.Record = tc.own
			s, err := r.Launch(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			reported := s.Recording != nil && s.Recording.Events == tc.want.Events && s.Recording.Frames == tc.want.Frames && s.Recording.HAR == tc.want.HAR
			if got != tc.want || reported != tc.want.Any() {
				t.Errorf("recorded %+v, reported %+v, want %+v", got, s.Recording, tc.want)
			}
		})
	}
}

// TestRecord_RefusesProfileThatCannotBeRecorded names the profile in the error.
func TestRecord_RefusesProfileThatCannotBeRecorded(t *testing.T) {
	for message, change := range map[string]func(*launch.Options){
		"must be empty, also in the profile: this worker does not keep files (FILES_RETENTION is 0)": func(*launch.Options) {},
		"must not contain video, also in the profile: no encoder": func(o *launch.Options) {
			o.KeepsFiles, o.CannotRecord = true, func(launch.Record) string { return "no encoder" }
		},
	} {
		r := newFixture(t, func(o *launch.Options) { o.Launcher = &recordingLauncher{} }, change)
		r.cloud.profile.Settings.Record = []string{"video"}
		_, err := r.Launch(t.Context(), byProfile())
		f := fault.From(err)
		if f == nil || f.Kind != fault.Validation || len(f.Details) != 1 || f.Details[0].Field != "browser.record" || f.Details[0].Message != message {
			t.Errorf("error %+v", f)
		}
	}
}

// TestRecord_SessionSaysThatStartFailed launches a browser whose recording cannot start. The cloud gets no URL.
func TestRecord_SessionSaysThatStartFailed(t *testing.T) {
	r := newFixture(t, func(o *launch.Options) {
		o.KeepsFiles = true
		o.CannotRecord = func(launch.Record) string { return "" }
		o.RecordingURLs = func(uuid.UUID) (player, viewer string) { return "https://worker/player", "https://worker/viewer" }
		o.Launched = func(uuid.UUID, launch.Request, launch.Record) string { return "disk_full" }
	})
	request := byProfile()
	request.Override.Record = []string{"events"}
	s, err := r.Launch(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if recording := s.Recording; recording == nil || recording.Failure != "disk_full" || recording.URL != "" || !recording.Events {
		t.Errorf("got %+v", recording)
	}
}
