package browser

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// fontsTimeout limits how long fontconfig may take: it reads all fonts if its cache is old.
const fontsTimeout = time.Minute

// scripts are the checked scripts, with a letter of each.
var scripts = []struct {
	name   string
	letter uint64
}{
	{"arabic", 'ب'}, {"bengali", 'ক'}, {"cyrillic", 'я'}, {"devanagari", 'क'}, {"emoji", '🦊'}, {"greek", 'λ'},
	{"han", '中'}, {"hangul", '가'}, {"hebrew", 'א'}, {"kana", 'あ'}, {"tamil", 'க'}, {"thai", 'ก'},
}

// MissingScripts returns the scripts that pages show as empty boxes, since no font of this
// host has their letters. It fails without the program fc-list of fontconfig.
func MissingScripts(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, fontsTimeout)
	defer cancel()
	list := exec.CommandContext(ctx, "fc-list", "--format", `%{charset}\n`)
	list.Env = []string{"HOME=/nonexistent"} // browsers have another home, and only the fonts of the system
	list.WaitDelay = time.Second
	charsets, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list fonts: %w", err)
	}
	return scriptsWithout(string(charsets)), nil
}

// scriptsWithout returns the scripts without a font. Each line of charsets has the
// characters of a font: hexadecimal numbers and ranges, separated by spaces.
func scriptsWithout(charsets string) []string {
	missing := []string{}
	for _, script := range scripts {
		if !hasLetter(charsets, script.letter) {
			missing = append(missing, script.name)
		}
	}
	return missing
}

func hasLetter(charsets string, letter uint64) bool {
	for field := range strings.FieldsSeq(charsets) {
		first, last, isRange := strings.Cut(field, "-")
		if !isRange {
			last = first
		}
		low, lowErr := strconv.ParseUint(first, 16, 32)
		high, highErr := strconv.ParseUint(last, 16, 32)
		if lowErr == nil && highErr == nil && low <= letter && letter <= high {
			return true
		}
	}
	return false
}
