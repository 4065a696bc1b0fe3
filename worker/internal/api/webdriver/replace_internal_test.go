package webdriver

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReplacingReader_ReplacesAcrossReads(t *testing.T) {
	const text = "abcd1234, abcd, abcd1234abcd1234 and abcd123"
	for name, source := range map[string]io.Reader{
		"at once": strings.NewReader(text), "by bytes": iotest.OneByteReader(strings.NewReader(text)), "with the error": iotest.DataErrReader(strings.NewReader(text)),
	} {
		got, err := io.ReadAll(newReplacingReader(source, "abcd1234", "ID"))
		if want := "ID, abcd, IDID and abcd123"; err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	if _, err := io.ReadAll(newReplacingReader(iotest.ErrReader(io.ErrUnexpectedEOF), "a", "b")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
}
