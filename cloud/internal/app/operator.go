package app

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"text/tabwriter"
	"time"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/license"
	"github.com/browser-svc/svc/cloud/internal/platform/audit"
	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
	"github.com/browser-svc/svc/cloud/internal/tenancy/org"
	"github.com/browser-svc/svc/cloud/internal/tenancy/plan"
	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/program"
)

// operator holds the services that the operator's commands use. Its changes are
// recorded in the audit log as the operator's.
type operator struct {
	config        Config
	logger        *slog.Logger
	pools         pools
	organizations *org.Service
	subscriptions *billing.Service
	plans         *plan.Service
	licenses      *license.Service
	keys          *apikey.Service
	users         auth.Operator
}

// withOperator opens the services for one command, also while a cloud is running.
func withOperator(ctx context.Context, config Config, logger *slog.Logger, use func(*operator) error) error {
	return withDatabase(ctx, config, logger, func(pools pools) (err error) {
		o := &operator{config: config, logger: logger, pools: pools, plans: plan.New(pools.tenants)}
		if o.licenses, err = license.New(ctx, pools.system, nil, logger, license.Options{}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, o.licenses.Close()) }()
		events := &audit.Log{DB: pools.tenants, Clock: clock.System{}, Source: func(context.Context) audit.Source {
			return audit.Source{Operator: operatorName()}
		}}
		o.keys = &apikey.Service{DB: pools.tenants, Clock: clock.System{}, Audit: events}
		o.subscriptions = &billing.Service{
			DB: pools.tenants, System: pools.system, Clock: clock.System{}, Slots: o.licenses, Audit: events,
			Provider: billing.Manual{Clock: clock.System{}}, Logger: logger,
		}
		o.organizations = &org.Service{
			DB: pools.tenants, System: pools.system, Clock: clock.System{}, Limits: o.plans, Audit: events,
			Provisioner: provisioner{o.plans, o.licenses, clock.System{}},
		}
		accounts, err := auth.New(pools.tenants, clock.System{}, o.organizations, auth.DefaultCost)
		if err != nil {
			return err
		}
		if accounts.Public, err = config.public(); err != nil {
			return err
		}
		o.organizations.Users = accounts
		o.users = auth.Operator{Accounts: accounts, DB: pools.system, Audit: events}
		return use(o)
	})
}

// operatorName returns the operating system user that runs the command, before
// sudo.
func operatorName() string {
	if name := os.Getenv("SUDO_USER"); name != "" {
		return name
	}
	if who, err := user.Current(); err == nil {
		return who.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}

// organization finds an organization by the reference in a command.
func (o *operator) organization(ctx context.Context, ref string) (org.Summary, error) {
	found, err := o.organizations.Find(ctx, ref)
	if fault.Is(err, fault.NotFound) {
		return found, fmt.Errorf("no organization has the ID or slug %q; list them with svc-cloud organizations list", ref)
	}
	return found, err
}

// user finds a user by the reference in a command.
func (o *operator) user(ctx context.Context, ref string) (auth.Account, error) {
	found, err := o.users.Find(ctx, ref)
	if fault.Is(err, fault.NotFound) {
		return found, fmt.Errorf("no user has the ID or e-mail address %q; list them with svc-cloud users list", ref)
	}
	return found, err
}

// pageSize is the number of rows that a list command reads at a time.
const pageSize = 100

// listCommand is a "list" command that reads items of type S and prints them as
// T.
type listCommand[S, T any] struct {
	summary string
	search  string // help of the flag --search
	header  string // of the table, its columns separated by tabs
	list    func(ctx context.Context, o *operator, search string, r page.Request) (page.Page[S], error)
	view    func(ctx context.Context, o *operator, found S) (T, error)
	row     func(T) []any
}

func (l listCommand[S, T]) command(out io.Writer) program.Command[Config] {
	var search string
	var json bool
	return program.Command[Config]{
		Name: "list", Summary: l.summary,
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&search, "search", "", l.search)
			addJSONFlag(flags, &json)
		},
		Run: func(ctx context.Context, config Config, logger *slog.Logger) error {
			return withOperator(ctx, config, logger, func(o *operator) error {
				all, rows := []T{}, [][]any{}
				err := forEach(func(r page.Request) (page.Page[S], error) {
					return l.list(ctx, o, search, r)
				}, func(found S) error {
					item, err := l.view(ctx, o, found)
					all, rows = append(all, item), append(rows, l.row(item))
					return err
				})
				if err != nil {
					return err
				}
				if json {
					return printJSON(out, all)
				}
				return printTable(out, l.header, rows)
			})
		},
	}
}

// changeCommand returns a command that changes the item that its first argument names,
// and prints the result: text, or the value of view as JSON. c declares the other
// arguments and flags.
func changeCommand[S any](out io.Writer, c program.Command[Config], item program.Arg,
	find func(o *operator, ctx context.Context, ref string) (S, error),
	change func(ctx context.Context, o *operator, found S) (text string, view func() (any, error), err error),
) program.Command[Config] {
	var ref string
	var json bool
	item.Value = &ref
	c.Args = append([]program.Arg{item}, c.Args...)
	flags := c.Flags
	c.Flags = func(set *flag.FlagSet) {
		if flags != nil {
			flags(set)
		}
		addJSONFlag(set, &json)
	}
	c.Run = func(ctx context.Context, config Config, logger *slog.Logger) error {
		return withOperator(ctx, config, logger, func(o *operator) error {
			found, err := find(o, ctx, ref)
			if err != nil {
				return err
			}
			text, view, err := change(ctx, o, found)
			if err != nil {
				return err
			}
			if !json {
				_, err = fmt.Fprintln(out, text)
				return err
			}
			value, err := view()
			if err != nil {
				return err
			}
			return printJSON(out, value)
		})
	}
	return c
}

// forEach calls do for each item of a paginated list.
func forEach[T any](list func(page.Request) (page.Page[T], error), do func(T) error) error {
	for request := (page.Request{Page: 1, Limit: pageSize}); ; request.Page++ {
		found, err := list(request)
		if err != nil {
			return err
		}
		for _, item := range found.Items {
			if err := do(item); err != nil {
				return err
			}
		}
		if !found.HasNext() {
			return nil
		}
	}
}

// addJSONFlag declares the flag --json.
func addJSONFlag(flags *flag.FlagSet, value *bool) {
	flags.BoolVar(value, "json", false, "Print JSON instead of text")
}

func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// printTable prints the header and the rows as aligned columns.
func printTable(out io.Writer, header string, rows [][]any) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, header)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				_, _ = fmt.Fprint(w, "\t")
			}
			_, _ = fmt.Fprint(w, cell)
		}
		_, _ = fmt.Fprintln(w)
	}
	return w.Flush()
}

// shortTime formats a time for a table; "-" for nil.
func shortTime(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// limitText formats a limit for a table.
func limitText(limit *int) string {
	if limit == nil {
		return "unlimited"
	}
	return fmt.Sprint(*limit)
}
