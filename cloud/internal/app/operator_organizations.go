package app

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/cloud/internal/tenancy/billing"
	"github.com/browser-svc/svc/cloud/internal/tenancy/org"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/program"
)

// organizationsCommand manages organizations. It prints results to out.
func organizationsCommand(out io.Writer) program.Command[Config] {
	return program.Command[Config]{
		Name: "organizations", Summary: "Manage organizations: list, show, assign plans, suspend",
		Commands: []program.Command[Config]{
			listOrganizations(out), showOrganization(out), assignPlan(out), suspendOrganization(out), resumeOrganization(out),
		},
	}
}

const organizationDoc = "The organization's ID or slug"

// organizationView is an organization as the commands print it.
type organizationView struct {
	ID           uuid.UUID `json:"id"`
	Slug         string    `json:"slug"`
	Name         string    `json:"name"`
	Plan         string    `json:"plan"`
	Status       string    `json:"status"`
	Suspended    bool      `json:"suspendedByOperator"`
	Provider     *string   `json:"billedBy"`
	ProfileLimit *int      `json:"profileLimit"`
	Members      int       `json:"members"`
	CreatedAt    time.Time `json:"createdAt"`
}

func (o *operator) organizationView(ctx context.Context, s org.Summary) (organizationView, error) {
	sub, err := o.subscriptions.Subscription(ctx, s.ID)
	if err != nil {
		return organizationView{}, fmt.Errorf("organization %s: %w", s.ID, err)
	}
	return newOrganizationView(s, sub), nil
}

func newOrganizationView(s org.Summary, sub billing.Subscription) organizationView {
	view := organizationView{
		ID: s.ID, Slug: s.Slug, Name: s.Name, Plan: sub.Plan.Slug, Status: string(sub.Status), Suspended: sub.OperatorSuspended,
		ProfileLimit: sub.Effective().Profiles, Members: s.Members, CreatedAt: s.CreatedAt.UTC(),
	}
	if sub.OperatorSuspended {
		view.Status = string(billing.Suspended)
	}
	if sub.Provider != "" {
		view.Provider = &sub.Provider
	}
	return view
}

func listOrganizations(out io.Writer) program.Command[Config] {
	return listCommand[org.Summary, organizationView]{
		summary: "List the organizations, the oldest first",
		search:  "Only those whose name or slug contains this `TEXT`",
		header:  "ID\tSLUG\tPLAN\tSTATUS\tPROFILES\tMEMBERS\tCREATED\tNAME",
		list: func(ctx context.Context, o *operator, search string, r page.Request) (page.Page[org.Summary], error) {
			return o.organizations.ListAll(ctx, search, r)
		},
		view: func(ctx context.Context, o *operator, s org.Summary) (organizationView, error) {
			return o.organizationView(ctx, s)
		},
		row: func(s organizationView) []any {
			return []any{s.ID, s.Slug, s.Plan, s.Status, limitText(s.ProfileLimit), s.Members, shortTime(&s.CreatedAt), s.Name}
		},
	}.command(out)
}

// organizationDetails is the output of the command show.
type organizationDetails struct {
	organizationView
	Current  int          `json:"current"` // slots taken, reservations included
	Running  int          `json:"runningSessions"`
	Reserved int          `json:"reservedSlots"`
	People   []memberView `json:"people"`
	Keys     []keyView    `json:"keys"`
}

type memberView struct {
	ID    uuid.UUID `json:"id"`
	Email string    `json:"email"`
	Role  org.Role  `json:"role"`
}

type keyView struct {
	ID         uuid.UUID  `json:"id"`
	Name       string     `json:"name"`
	Prefix     string     `json:"prefix"`
	LastFour   string     `json:"lastFour"`
	LastUsedAt *time.Time `json:"lastUsedAt"`
	ExpiresAt  *time.Time `json:"expiresAt"`
}

func newKeyView(k apikey.Key) keyView {
	return keyView{k.ID, k.Name, k.Prefix, k.LastFour, k.LastUsedAt, k.ExpiresAt}
}

func (o *operator) details(ctx context.Context, s org.Summary) (d organizationDetails, err error) {
	if d.organizationView, err = o.organizationView(ctx, s); err != nil {
		return d, err
	}
	overview, err := o.licenses.Sessions(ctx, s.ID)
	if err != nil {
		return d, err
	}
	d.Current, d.Running, d.Reserved = overview.Current, overview.Running, overview.Reserved
	d.People, d.Keys = []memberView{}, []keyView{}
	err = forEach(func(r page.Request) (page.Page[org.Membership], error) {
		return o.organizations.Members(ctx, s.ID, org.MemberFilter{}, r)
	}, func(m org.Membership) error {
		d.People = append(d.People, memberView{m.UserID, m.Email, m.Role})
		return nil
	})
	if err != nil {
		return d, err
	}
	err = forEach(func(r page.Request) (page.Page[apikey.Key], error) {
		return o.keys.List(ctx, s.ID, r)
	}, func(k apikey.Key) error {
		d.Keys = append(d.Keys, newKeyView(k))
		return nil
	})
	return d, err
}

func showOrganization(out io.Writer) program.Command[Config] {
	var ref string
	var json bool
	return program.Command[Config]{
		Name: "show", Summary: "Show an organization with its plan, usage, members and keys",
		Args:  []program.Arg{{Name: "ORG", Doc: organizationDoc, Value: &ref}},
		Flags: func(flags *flag.FlagSet) { addJSONFlag(flags, &json) },
		Run: func(ctx context.Context, config Config, logger *slog.Logger) error {
			return withOperator(ctx, config, logger, func(o *operator) error {
				found, err := o.organization(ctx, ref)
				if err != nil {
					return err
				}
				d, err := o.details(ctx, found)
				if err != nil {
					return err
				}
				if json {
					return printJSON(out, d)
				}
				return d.print(out)
			})
		},
	}
}

func (d organizationDetails) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	billed := "nobody"
	if d.Provider != nil {
		billed = *d.Provider
	}
	for _, row := range [][2]any{
		{"ID", d.ID}, {"Slug", d.Slug}, {"Name", d.Name}, {"Plan", d.Plan}, {"Status", d.Status}, {"Billed by", billed},
		{"Profile limit", limitText(d.ProfileLimit)}, {"Running", d.Running}, {"Reserved", d.Reserved}, {"Created", shortTime(&d.CreatedAt)},
	} {
		_, _ = fmt.Fprintf(w, "%v:\t%v\n", row[0], row[1])
	}
	_ = w.Flush() // printTable returns an error if out fails
	people, keys := [][]any{}, [][]any{}
	for _, m := range d.People {
		people = append(people, []any{m.ID, m.Role, m.Email})
	}
	for _, k := range d.Keys {
		keys = append(keys, []any{k.ID, k.Prefix + "…" + k.LastFour, shortTime(k.LastUsedAt), shortTime(k.ExpiresAt), k.Name})
	}
	_, _ = fmt.Fprintln(out)
	if err := printTable(out, "MEMBER\tROLE\tE-MAIL", people); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out)
	return printTable(out, "KEY\tTEXT\tLAST USED\tEXPIRES\tNAME", keys)
}

// changeOrganization returns a command that changes an organization.
func changeOrganization(out io.Writer, c program.Command[Config],
	change func(ctx context.Context, o *operator, s org.Summary) (billing.Subscription, string, error),
) program.Command[Config] {
	return changeCommand(out, c, program.Arg{Name: "ORG", Doc: organizationDoc}, (*operator).organization,
		func(ctx context.Context, o *operator, s org.Summary) (string, func() (any, error), error) {
			sub, text, err := change(ctx, o, s)
			return text, func() (any, error) { return newOrganizationView(s, sub), nil }, err
		})
}

func assignPlan(out io.Writer) program.Command[Config] {
	var slug string
	return changeOrganization(out, program.Command[Config]{
		Name: "plan", Summary: "Assign a plan to an organization",
		Detail: "The plan takes effect immediately, with its current limits. Billing is manual: the price is written on an invoice,\n" +
			"and the unused part of a paid period is credited. An organization that a payment provider bills must change to\n" +
			"the free plan first. A suspended organization stays suspended.",
		Args: []program.Arg{{Name: "PLAN", Doc: "The plan's slug, such as free", Value: &slug}},
	}, func(ctx context.Context, o *operator, s org.Summary) (billing.Subscription, string, error) {
		sub, err := o.subscriptions.Assign(ctx, s.ID, slug)
		if fault.Is(err, fault.NotFound) {
			return sub, "", o.unknownPlan(ctx, slug)
		}
		return sub, fmt.Sprintf("%s now has the plan %s: profile limit %s, member limit %s", s.Slug, slug,
			limitText(sub.Effective().Profiles), limitText(sub.Effective().Members)), err
	})
}

func (o *operator) unknownPlan(ctx context.Context, slug string) error {
	plans, err := o.plans.List(ctx, page.Request{Page: 1, Limit: 100, SortBy: "position"})
	if err != nil {
		return err
	}
	var slugs []string
	for _, p := range plans.Items {
		slugs = append(slugs, p.Slug)
	}
	return fmt.Errorf("there is no plan %q: the plans are %s", slug, strings.Join(slugs, ", "))
}

func suspendOrganization(out io.Writer) program.Command[Config] {
	var reason string
	return changeOrganization(out, program.Command[Config]{
		Name: "suspend", Summary: "Suspend an organization: refuse its launches",
		Detail: "New launches and new profiles are refused. Running sessions continue until they end. Members can sign in, but\n" +
			"cannot change the plan or add-ons. Undo with svc-cloud organizations resume.",
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&reason, "reason", "", "The `REASON` to record in the audit log, which owners and admins can read")
		},
	}, func(ctx context.Context, o *operator, s org.Summary) (billing.Subscription, string, error) {
		sub, err := o.subscriptions.Suspend(ctx, s.ID, reason)
		return sub, s.Slug + " is suspended: new launches are refused, and running sessions continue", err
	})
}

func resumeOrganization(out io.Writer) program.Command[Config] {
	return changeOrganization(out, program.Command[Config]{
		Name: "resume", Summary: "Resume a suspended organization",
	}, func(ctx context.Context, o *operator, s org.Summary) (billing.Subscription, string, error) {
		sub, err := o.subscriptions.Restore(ctx, s.ID)
		return sub, fmt.Sprintf("%s is resumed: profile limit %s", s.Slug, limitText(sub.Effective().Profiles)), err
	})
}
