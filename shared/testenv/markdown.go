package testenv

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// CheckMarkdown returns an error unless the section of the file between
// <!-- env:marker --> and <!-- /env:marker --> equals table. Tests use it to keep
// the configuration tables up to date:
//
//	if *update {
//		err = testenv.UpdateMarkdown("../README.md", "cloud", env.Table[Config]())
//	} else {
//		err = testenv.CheckMarkdown("../README.md", "cloud", env.Table[Config]())
//	}
func CheckMarkdown(path, marker, table string) error {
	_, old, expected, err := section(path, marker, table)
	if err != nil {
		return err
	}
	if old != expected {
		return fmt.Errorf("%s: the section env:%s is out of date; have:\n%s\nwant:\n%s",
			path, marker, strings.TrimSpace(old), strings.TrimSpace(expected))
	}
	return nil
}

// UpdateMarkdown writes table between the markers of the file. It does not write
// a file that is up to date.
func UpdateMarkdown(path, marker, table string) error {
	content, old, expected, err := section(path, marker, table)
	if err != nil || old == expected {
		return err
	}
	opening, _ := markers(marker)
	content = strings.Replace(content, opening+old, opening+expected, 1)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return fmt.Errorf("update env:%s: %w", marker, err)
	}
	return nil
}

func markers(marker string) (opening, closing string) {
	return "<!-- env:" + marker + " -->", "<!-- /env:" + marker + " -->"
}

// section returns the file, the text between the markers and the expected text.
func section(path, marker, table string) (content, old, expected string, err error) {
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
