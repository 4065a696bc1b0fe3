package sandbox_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
)

// The document allows 50 switches of 1,024 characters; JSON writes some of them
// with six bytes.
func TestARoomTakesAllSwitchesThatThereMayBe(t *testing.T) {
	h := open(t, nil)
	for _, length := range []int{10, 1024} {
		for _, character := range []string{"<", "\u2028", "\U0001F600"} {
			var args []string
			for range 50 {
				args = append(args, strings.Repeat(character, length))
			}
			want := fmt.Sprintf("50 %x", sha256.Sum256([]byte(strings.Join(args, ""))))
			if got := h.run(t, `printf '%s ' $#; printf %s "$@" | sha256sum | cut -d ' ' -f 1`, args...); got != want {
				t.Errorf("%d times %q: got %s, want %s", length, character, got, want)
			}
		}
	}
}
