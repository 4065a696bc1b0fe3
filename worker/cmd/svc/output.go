package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"golang.org/x/term"
)

// emit prints a value as JSON.
func (a *app) emit(value any) error {
	encoder := json.NewEncoder(a.out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// emitLine prints a value as a line of JSON.
func (a *app) emitLine(value any) error { return json.NewEncoder(a.out).Encode(value) }

// table prints rows in columns.
func (a *app) table(rows [][]string) error {
	_, err := io.WriteString(a.out, formatTable(rows, 0))
	return err
}

// list is table, and cuts lines that are longer than those of the terminal.
func (a *app) list(rows [][]string) error {
	width := 0
	if file, ok := a.out.(*os.File); ok && isTerminal(file) {
		width, _, _ = term.GetSize(int(file.Fd()))
	}
	_, err := io.WriteString(a.out, formatTable(rows, width))
	return err
}

// formatTable returns the rows in columns, with lines of at most width characters; 0 is any.
func formatTable(rows [][]string, width int) string {
	var formatted bytes.Buffer
	columns := tabwriter.NewWriter(&formatted, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = strings.ReplaceAll(printable(cell), "\n", " ")
		}
		_, _ = fmt.Fprintln(columns, strings.Join(cells, "\t"))
	}
	_ = columns.Flush() // a buffer accepts everything
	var b strings.Builder
	for line := range strings.Lines(formatted.String()) {
		text := []rune(strings.TrimRight(line, " \n"))
		if width > 0 && len(text) > width {
			text = append(text[:width-1], '…')
		}
		b.WriteString(string(text) + "\n")
	}
	return b.String()
}

// printable replaces control characters: names and messages come from pages, and could change what the terminal shows.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' || unicode.Is(unicode.Bidi_Control, r) {
			return '\uFFFD'
		}
		return r
	}, strings.NewReplacer("\t", " ", "\r\n", "\n").Replace(text))
}

// age is a time in the past or future, such as 5m.
func age(t *time.Time) string {
	if t == nil {
		return "-"
	}
	switch d := time.Since(*t).Abs(); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

func deref[T any](value *T, otherwise string) string {
	if value == nil {
		return otherwise
	}
	return fmt.Sprint(*value)
}

func isTerminal(file *os.File) bool { return term.IsTerminal(int(file.Fd())) }

// openLocally opens a URL in the web browser of this machine, or prints it if there is none.
func (a *app) openLocally(ctx context.Context, address string, printOnly bool) error {
	if a.json {
		return a.emit(map[string]string{"url": address})
	}
	if !printOnly {
		err := startBrowser(ctx, address)
		if err == nil {
			return nil
		}
		_, _ = fmt.Fprintf(a.errs, "No web browser could be started (%v). Open this address, which works once:\n", err)
	}
	_, err := fmt.Fprintln(a.out, address)
	return err
}

// startBrowser gives the URL to the program of the system that opens it.
func startBrowser(ctx context.Context, address string) error {
	command := []string{"xdg-open", address}
	if runtime.GOOS == "darwin" {
		command[0] = "open"
	} else if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" && os.Getenv("BROWSER") == "" {
		return errors.New("this machine has no display")
	}
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	if err != nil && len(out) > 0 {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return err
}
