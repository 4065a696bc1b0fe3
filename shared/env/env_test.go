package env_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/env"
	"github.com/browser-svc/svc/shared/testenv"
)

type database struct {
	URL     string        `env:"URL,required" secret:"true" doc:"Where the database is."`
	Timeout time.Duration `env:"TIMEOUT" envDefault:"5s" doc:"How long a query may take."`
}

type config struct {
	Port     int            `env:"PORT" envDefault:"3000" doc:"Port to listen on."`
	Key      string         `env:"SVC_KEY" secret:"true" doc:"Organization key | yours."`
	Public   url.URL        `env:"PUBLIC_URL" doc:"Address that clients use."`
	Proxies  []netip.Prefix `env:"TRUSTED_PROXIES" doc:"Networks of proxies."`
	Verbose  bool           `env:"VERBOSE" doc:"Log more."`
	Pin      int            `env:"PIN" secret:"true" doc:"A number nobody may see."`
	Database database       `envPrefix:"DATABASE_" group:"The database"`
	Level    string         `env:"LEVEL" doc:"Level of the log."`
	Ignored  string
}

func TestParse_ValuesDefaultsAndGroups(t *testing.T) {
	got, err := env.Parse[config](map[string]string{
		"SVC_KEY": "k", "PUBLIC_URL": "https://example.test/w", "TRUSTED_PROXIES": "10.0.0.0/8,fd00::/8",
		"DATABASE_URL": "postgres://x", "PORT": "",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := config{
		Port: 3000, Key: "k",
		Public:   url.URL{Scheme: "https", Host: "example.test", Path: "/w"},
		Proxies:  []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
		Database: database{URL: "postgres://x", Timeout: 5 * time.Second},
	}
	comparePrefix := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	if diff := cmp.Diff(want, got, comparePrefix); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParse_ReportsAllInvalidVariablesWithoutSecrets(t *testing.T) {
	_, err := env.Parse[config](map[string]string{
		"PORT": "many", "VERBOSE": "loud", "TRUSTED_PROXIES": "10.0.0.0/8,everyone",
		"DATABASE_TIMEOUT": "5 parsecs", "PIN": "s3cret",
	})
	var wrong *env.Error
	if !errors.As(err, &wrong) {
		t.Fatalf("Parse = %v", err)
	}
	var names []string
	for _, p := range wrong.Problems {
		names = append(names, p.Variable)
	}
	want := []string{"PORT", "TRUSTED_PROXIES", "VERBOSE", "PIN", "DATABASE_URL", "DATABASE_TIMEOUT"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	text := err.Error()
	for _, want := range []string{
		"\n  PORT: not a valid whole number: ", `"many"`, "\n  DATABASE_URL: is required",
		"everyone", "\n  PIN: not a valid whole number\n", `duration, such as "30s"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "s3cret") {
		t.Errorf("the text contains a secret:\n%s", text)
	}
}

func TestParse_NilReadsProcessEnvironment(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://process")
	got, err := env.Parse[config](nil)
	if err != nil || got.Database.URL != "postgres://process" {
		t.Errorf("Parse(nil) = %+v, %v", got.Database, err)
	}
	if _, err := env.Parse[config](map[string]string{}); err == nil {
		t.Error("Parse of an empty environment used the process environment")
	}
}

func TestParse_ReadsSecretsFromFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	got, err := env.Parse[config](map[string]string{
		"SVC_KEY": "", "SVC_KEY_FILE": file("key", "k e y\r\n"),
		"DATABASE_URL": "postgres://variable", "DATABASE_URL_FILE": filepath.Join(dir, "unread"),
		"PORT_FILE": filepath.Join(dir, "not a secret"),
	})
	if err != nil || got.Key != "k e y" || got.Database.URL != "postgres://variable" || got.Port != 3000 {
		t.Errorf("Parse = %+v, %v", got, err)
	}
	_, err = env.Parse[config](map[string]string{
		"SVC_KEY_FILE": filepath.Join(dir, "missing"), "DATABASE_URL_FILE": file("empty", "\n"), "PIN_FILE": "/dev/zero",
	})
	want := fmt.Sprintf("invalid environment:\n  SVC_KEY_FILE: open %[1]s/missing: no such file or directory\n"+
		"  PIN_FILE: /dev/zero is larger than 65536 bytes\n  DATABASE_URL_FILE: %[1]s/empty is empty", dir)
	if err == nil || err.Error() != want {
		t.Errorf("Parse = %v, want %s", err, want)
	}
	_, err = env.Parse[config](map[string]string{"DATABASE_URL": "x", "PIN_FILE": file("pin", "s3cret")})
	if err == nil || !strings.HasSuffix(err.Error(), "PIN: not a valid whole number") {
		t.Errorf("Parse = %v", err)
	}
}

type portRange struct {
	Port int `env:"PORT" envDefault:"3000"`
}

func (r *portRange) Validate() error {
	if r.Port > 65535 {
		return fmt.Errorf("PORT: %d is no port", r.Port)
	}
	return nil
}

func TestParse_CallsValidate(t *testing.T) {
	if _, err := env.Parse[portRange](map[string]string{"PORT": "70000"}); err == nil || !strings.Contains(err.Error(), "70000 is no port") {
		t.Errorf("Parse = %v", err)
	}
	if _, err := env.Parse[portRange](map[string]string{"PORT": "80"}); err != nil {
		t.Errorf("Parse = %v", err)
	}
}

const wantTable = `| Variable | Default | Meaning |
|---|---|---|
| ` + "`PORT` | `3000`" + ` | Port to listen on. |
| ` + "`SVC_KEY`" + ` |  | Organization key \| yours. Or its file: SVC_KEY_FILE. |
| ` + "`PUBLIC_URL`" + ` |  | Address that clients use. |
| ` + "`TRUSTED_PROXIES`" + ` |  | Networks of proxies. |
| ` + "`VERBOSE`" + ` |  | Log more. |
| ` + "`PIN`" + ` |  | A number nobody may see. Or its file: PIN_FILE. |

### The database

| Variable | Default | Meaning |
|---|---|---|
| ` + "`DATABASE_URL`" + ` | required | Where the database is. Or its file: DATABASE_URL_FILE. |
| ` + "`DATABASE_TIMEOUT` | `5s`" + ` | How long a query may take. |
| ` + "`LEVEL`" + ` |  | Level of the log. |
`

func TestTableAndUsage(t *testing.T) {
	if diff := cmp.Diff(wantTable, env.Table[config]()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	usage := env.Usage[config]()
	for _, want := range []string{
		"  PORT             Port to listen on. (default 3000)\n",
		"\nThe database:\n",
		"  DATABASE_URL      Where the database is. Or its file: DATABASE_URL_FILE. (required)\n",
	} {
		if !strings.Contains(usage, want) {
			t.Errorf("%q is missing in:\n%s", want, usage)
		}
	}
}

func TestUsage_WrapsLongTexts(t *testing.T) {
	type long struct {
		Port int    `env:"PORT" doc:"Port to listen on."`
		Text string `env:"A_TEXT" doc:"A text that is longer than the line of a terminal, because it explains a variable in several sentences."`
	}
	want := `  PORT    Port to listen on.
  A_TEXT  A text that is longer than the line of a terminal, because it explains a variable in
          several sentences.
`
	if diff := cmp.Diff(want, env.Usage[long]()); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

func TestRedacted_HidesSecrets(t *testing.T) {
	cfg, err := env.Parse[config](map[string]string{
		"DATABASE_URL": "postgres://svc:hunter2@db/svc", "PUBLIC_URL": "https://me:hunter2@example.test/",
	})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).LogAttrs(t.Context(), slog.LevelInfo, "configuration", env.Redacted(cfg)...)
	if strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log contains a secret: %s", log.String())
	}
	for _, want := range []string{"PORT=3000", `SVC_KEY="not set"`, "DATABASE_URL=set", "DATABASE_TIMEOUT=5s", "PUBLIC_URL=https://me:xxxxx@example.test/"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is missing in %s", want, log.String())
		}
	}
}

func TestMarkdown_CheckAndUpdate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "README.md")
	const before = "# Title\n\n<!-- env:cloud -->\nold\n<!-- /env:cloud -->\n\nAfter.\n"
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := testenv.CheckMarkdown(path, "cloud", wantTable); err == nil || !strings.Contains(err.Error(), "out of date") {
		t.Errorf("Check = %v", err)
	}
	if err := testenv.UpdateMarkdown(path, "cloud", wantTable); err != nil {
		t.Fatal(err)
	}
	if err := testenv.CheckMarkdown(path, "cloud", wantTable); err != nil {
		t.Error(err)
	}
	got, _ := os.ReadFile(path)
	want := "# Title\n\n<!-- env:cloud -->\n\n" + wantTable + "\n<!-- /env:cloud -->\n\nAfter.\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := testenv.CheckMarkdown(path, "worker", wantTable); err == nil {
		t.Error("a missing section passed")
	}
}
