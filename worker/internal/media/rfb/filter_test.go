package rfb_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/worker/internal/media/rfb"
)

var (
	pixelFormat = []byte{0, 0, 0, 0, 32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0}
	request     = []byte{3, 1, 0, 0, 0, 0, 3, 32, 2, 88}
	continuous  = []byte{150, 1, 0, 0, 0, 0, 3, 32, 2, 88}
)

// messages contains every kind of message with the expected output for each access.
var messages = []struct {
	name                 string
	sent, watch, control []byte
}{
	{"SetPixelFormat", pixelFormat, pixelFormat, pixelFormat},
	{"SetEncodings", encodingsMessage(7, -258, -309, -316, -1063131698, -259, -223), encodingsMessage(7, -223), encodingsMessage(7, -258, -1063131698, -223)},
	{"FramebufferUpdateRequest", request, request, request},
	{"EnableContinuousUpdates", continuous, continuous, continuous},
	{"Fence", fence("payload"), fence("payload"), fence("payload")},
	{"KeyEvent", holdKey('a', 1), nil, holdKey('a', 1)},
	{"PointerEvent", pointer(1, 2, 3), nil, pointer(1, 2, 3)},
	{"ClientCutText", cutText("text"), nil, cutText("text")},
	{"ClientCutText too long", cutText(string(make([]byte, 256<<10+1))), nil, nil},
	{"ClientCutText extended", extendedClipboard, nil, extendedClipboard},
	{"xvp", xvpReboot, nil, nil},
	{"SetDesktopSize", resizeMessage(10, 10), nil, nil},
	{"QEMU key", qemuKeyA, nil, qemuKeyA},
	{"QEMU audio on", qemuAudioOn, nil, nil},
	{"QEMU audio format", qemuAudioFormat, nil, nil},
}

func TestFilter_PassesAllowedMessages(t *testing.T) {
	for _, m := range messages {
		for access, want := range map[rfb.Access][]byte{rfb.Watch: m.watch, rfb.Control: m.control} {
			var passed bytes.Buffer
			acted := 0
			err := rfb.Filter(bytes.NewReader(slices.Concat(m.sent, request)), &passed, access, func() { acted++ })
			if !errors.Is(err, rfb.ErrClientGone) {
				t.Errorf("%s, access %d: ended with %v", m.name, access, err)
			}
			if diff := cmp.Diff(slices.Concat(want, request), passed.Bytes()); diff != "" {
				t.Errorf("%s, access %d:\n%s", m.name, access, diff)
			}
			if input := m.watch == nil && want != nil; (acted == 1) != input || acted > 1 {
				t.Errorf("%s, access %d: got %d calls of acted", m.name, access, acted)
			}
		}
	}
}

func TestFilter_HandlesSplitMessages(t *testing.T) {
	for _, access := range []rfb.Access{rfb.Watch, rfb.Control} {
		var sent, want []byte
		for _, m := range messages {
			if len(m.sent) > 1000 {
				continue
			}
			sent = append(sent, m.sent...)
			if access == rfb.Watch {
				want = append(want, m.watch...)
			} else {
				want = append(want, m.control...)
			}
		}
		var passed bytes.Buffer
		_ = rfb.Filter(iotest.OneByteReader(bytes.NewReader(sent)), &passed, access, func() {})
		if diff := cmp.Diff(want, passed.Bytes()); diff != "" {
			t.Errorf("access %d, byte by byte:\n%s", access, diff)
		}
		for cut := range sent { // a truncated stream passes complete messages only
			passed.Reset()
			_ = rfb.Filter(bytes.NewReader(sent[:cut]), &passed, access, func() {})
			if !bytes.HasPrefix(want, passed.Bytes()) {
				t.Fatalf("access %d, cut at %d: the output was not sent by the client", access, cut)
			}
			if access == rfb.Watch {
				assertHarmless(t, passed.Bytes())
			}
		}
	}
}

// assertHarmless checks the output for the messages of a watcher.
func assertHarmless(t *testing.T, passed []byte) {
	t.Helper()
	for len(passed) > 0 {
		n := 0
		switch passed[0] {
		case 0:
			n = 20
		case 2:
			n = 4 + 4*int(binary.BigEndian.Uint16(passed[2:]))
			for e := range slices.Chunk(passed[4:n], 4) {
				if slices.Contains([]uint32{0xfffffefe, 0xfffffecb, 0xfffffec4, 0xc0a1e5ce}, binary.BigEndian.Uint32(e)) {
					t.Fatalf("encoding %x passed", e)
				}
			}
		case 3, 150:
			n = 10
		case 248:
			n = 9 + int(passed[8])
			if passed[8] > 64 {
				t.Fatalf("a fence of %d bytes passed", passed[8])
			}
		default:
			t.Fatalf("a message of type %d passed", passed[0])
		}
		if n > len(passed) {
			t.Fatal("an incomplete message passed")
		}
		passed = passed[n:]
	}
}
