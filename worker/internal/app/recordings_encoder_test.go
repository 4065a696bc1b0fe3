package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/testing/cloudtest"
)

// encoderAttack is a program in the place of ffmpeg. It prints what a decoder could reach that a picture has exploited.
const encoderAttack = `#!/bin/bash
exec >&2
cat %[1]q
grep -q ^root: /etc/passwd && echo reached the users of the host
test -d /proc/%[2]d && echo reached the process of the worker
(exec 9<>/dev/tcp/127.0.0.1/%[3]d) && echo reached the network
echo attack ended
exit 3
`

// TestRecording_EncoderReachesOnlyItsFiles records with a program that attacks the host.
func TestRecording_EncoderReachesOnlyItsFiles(t *testing.T) {
	r, site := startTestWorker(t, cloudtest.New(t), withFiles), newRecordedSite(t)
	secret, programs := filepath.Join(testenv.PublicTempDir(t), "secret"), testenv.PublicTempDir(t)
	attack := fmt.Sprintf(encoderAttack, secret, os.Getpid(), r.config.Port)
	for path, content := range map[string]string{secret: "reached a file of the host\n", filepath.Join(programs, "ffmpeg"): attack} {
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	s := r.launchRecorded(t, site, true, `["video"]`)
	testenv.Eventually(t, "the end of the program", func() bool { return strings.Contains(r.log.String(), "attack ended") })
	r.session(t, "DELETE", "/sessions/"+s.Id.String(), "")
	r.awaitRecording(t, s)
	for line := range strings.Lines(r.log.String()) {
		if strings.Contains(line, "reached ") {
			t.Error(strings.TrimSpace(line))
		}
	}
}
