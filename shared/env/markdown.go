package env

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// CheckMarkdown reports whether the section of the file between
// <!-- env:marker --> and <!-- /env:marker --> is table. A test calls it so
// that the README keeps up with the code:
//
//	if *update {
//		err = env.UpdateMarkdown("../README.md", "cloud", env.Table[Config]())
//	} else {
//		err = env.CheckMarkdown("../README.md", "cloud", env.Table[Config]())
//	}
func CheckMarkdown(path, marker, table string) error {
	_, old, wanted, err := section(path, marker, table)
	if err != nil {
		return err
	}
	if old != wanted {
		return fmt.Errorf("%s: the section env:%s is out of date; have:\n%s\nwant:\n%s",
			path, marker, strings.TrimSpace(old), strings.TrimSpace(wanted))
	}
	return nil
}

// UpdateMarkdown puts table between the markers of the file. It leaves a file
// that is right already untouched, and the mode of one that is not.
func UpdateMarkdown(path, marker, table string) error {
	content, old, wanted, err := section(path, marker, table)
	if err != nil || old == wanted {
		return err
	}
	opening, _ := markers(marker)
	content = strings.Replace(content, opening+old, opening+wanted, 1)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return fmt.Errorf("update env:%s: %w", marker, err)
	}
	return nil
}

func markers(marker string) (opening, closing string) {
	return "<!-- env:" + marker + " -->", "<!-- /env:" + marker + " -->"
}

// section returns the file, what stands between the markers and what should.
func section(path, marker, table string) (content, old, wanted string, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", "", "", fmt.Errorf("read env:%s: %w", marker, err)
	}
	content = string(raw)
	opening, closing := markers(marker)
	_, rest, opened := strings.Cut(content, opening)
	old, _, closed := strings.Cut(rest, closing)
	if !opened || !closed {
		return "", "", "", fmt.Errorf("%s: %w", path, errors.New("no section "+opening+" ... "+closing))
	}
	return content, old, "\n\n" + strings.TrimSpace(table) + "\n\n", nil
}
