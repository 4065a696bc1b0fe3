package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/browser-svc/svc/gen/cloudapi"
	svc "github.com/browser-svc/svc/openapi/sdk/go"
)

// applyLimit is the limit of all calls of svc apply.
const applyLimit = 5 * time.Minute

func (a *app) applyAllCommand() *cobra.Command {
	var file string
	var dryRun, prune bool
	c := &cobra.Command{
		Use: "apply -f FILE", Short: "Apply a file with profiles, network rules, members, service accounts and webhooks", Args: cobra.NoArgs,
		Long: `Changes an organization to what a YAML or JSON file describes: profiles, networkRules, members, serviceAccounts and webhooks.
Sections that the file does not have are not changed, and nothing is deleted without --prune. Who is not a member yet is invited.
The secret of a new webhook is not printed: replace it to get one.

With --dry-run, the exit code is 7 if there are differences.

An access token needs profiles:write, members:write and webhooks:write. networkRules and serviceAccounts need the token of a dashboard session
(POST /v1/auth/sign-in).`,
		Example: "  svc apply -f organization.yaml --dry-run",
		RunE:    func(*cobra.Command, []string) error { return a.applyAll(file, dryRun, prune) },
	}
	c.Flags().StringVarP(&file, "file", "f", "", "the `FILE`; - for standard input")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "show the differences only")
	c.Flags().BoolVar(&prune, "prune", false, "delete what the sections of the file do not have, but no owners and not yourself; --dry-run lists it")
	_ = c.MarkFlagRequired("file") // the flag exists
	return c
}

func (a *app) applyAll(file string, dryRun, prune bool) error {
	text, err := a.readAll(file)
	if err != nil {
		return err
	}
	content, err := parseFile(text)
	if err != nil {
		return &codeError{exitUsage, fmt.Errorf("%s: %w", file, err)}
	}
	ctx, stop := within(applyLimit)
	defer stop()
	p, err := a.newPlan(content, prune)
	if err != nil {
		return err
	}
	for _, section := range []struct {
		name string
		add  func(ctx context.Context, described any) error
	}{{"profiles", p.addProfiles}, {"networkRules", p.addNetwork}, {"members", p.addMembers}, {"serviceAccounts", p.addAccounts}, {"webhooks", p.addWebhooks}} {
		if described, exists := content[section.name]; exists {
			if err := section.add(ctx, described); err != nil {
				return fmt.Errorf("%s: %w", section.name, err)
			}
		}
	}
	results, err := p.run(dryRun)
	for _, link := range p.links {
		_, _ = fmt.Fprintln(a.errs, printable(link))
	}
	changes := 0
	for _, r := range results {
		if r.Action != unchanged {
			changes++
		}
	}
	if err == nil && dryRun && changes > 0 {
		err = &endError{exitDifferences}
	}
	if a.json {
		return errors.Join(a.emit(results), err)
	}
	a.printApplied(results, dryRun)
	_, _ = fmt.Fprintf(a.out, "%d changes\n", changes)
	return err
}

// unchanged is the action of an object that is as the file describes it.
const unchanged = "unchanged"

// fields are an object in JSON.
type fields = map[string]any

// object is an object that exists.
type object struct {
	kind, name, id string
	fields         fields
	update         func(described, changed fields) error
	remove         func() error // nil: it is never deleted
}

// step is an object of the file, or one that is deleted.
type step struct {
	applied
	act func() (id string, err error)
}

// plan is what has to be done. Deletions are its last steps.
type plan struct {
	api             *cloudapi.Client
	organization    uuid.UUID
	prune           bool
	steps, removals []step
	links           []string // of invitations, if the cloud sends no mail
}

func (a *app) newPlan(content fields, prune bool) (*plan, error) {
	if _, err := a.cloud(); err != nil { // reports what is not set
		return nil, err
	}
	c, err := a.settings()
	if err != nil {
		return nil, err
	}
	p := &plan{prune: prune}
	header := http.Header{"Authorization": {"Bearer " + c.Token}}
	if id, given := content["organization"]; given {
		if p.organization, err = uuid.Parse(fmt.Sprint(id)); err != nil {
			return nil, &codeError{exitUsage, fmt.Errorf("organization: %w", err)}
		}
		header.Set("X-Svc-Organization", p.organization.String())
	} else if _, only := content["profiles"]; len(content) > 1 || !only {
		return nil, &codeError{exitUsage, errors.New("the file has to name the organization, with its id: organization: ID")}
	}
	client := &http.Client{Timeout: callLimit, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	p.api, err = cloudapi.NewClient(c.Cloud, cloudapi.WithHTTPClient(client), cloudapi.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		maps.Copy(r.Header, header)
		return nil
	}))
	return p, err
}

// listing is a page of a list.
type listing struct {
	Items      []fields
	Pagination struct{ HasNext bool }
}

// objects returns the objects of a list with the calls that change them.
func objects(kind, key string, read func(page int32) (listing, error), update func(id uuid.UUID, changed fields) error,
	remove func(id uuid.UUID) error,
) ([]object, error) {
	var found []object
	for page := int32(1); ; page++ {
		listed, err := read(page)
		for _, item := range listed.Items {
			normalize(item)
			name, id := fmt.Sprint(item[key]), fmt.Sprint(item["id"])
			parsed, err := uuid.Parse(id)
			if err != nil {
				return nil, err
			}
			found = append(found, object{kind, name, id, item,
				func(_, changed fields) error { return update(parsed, changed) }, func() error { return remove(parsed) }})
		}
		if err != nil || !listed.Pagination.HasNext {
			return found, err
		}
	}
}

// normalize makes values comparable: addresses in lower case, and scopes and types in order.
func normalize(item fields) {
	if email, ok := item["email"].(string); ok {
		item["email"] = strings.ToLower(email)
	}
	for _, field := range []string{"scopes", "types"} {
		if list, ok := item[field].([]any); ok {
			slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	}
}

// add compares the described objects with those that exist. Their key is the field with the name.
func (p *plan) add(kind, key string, described any, present []object, create func(described fields) (string, error)) error {
	items, isList := described.([]any)
	if !isList {
		return &codeError{exitUsage, errors.New("has to be a list, [] for none")}
	}
	kept := map[string]bool{}
	for _, item := range items {
		target, _ := item.(fields)
		normalize(target)
		name, _ := target[key].(string)
		if name == "" || kept[name] {
			return &codeError{exitUsage, fmt.Errorf("each %s needs its own %s, not %q", kind, key, name)}
		}
		kept[name] = true
		s := step{applied{Kind: kind, Name: name, Action: "created", Changes: differences(nil, target)}, func() (string, error) { return create(target) }}
		for _, o := range present {
			if o.name != name {
				continue
			}
			if s.ID != "" {
				return &codeError{exitUsage, fmt.Errorf("two objects of the cloud have the name %q, such as %s: rename one", name, o.id)}
			}
			s = o.step(target)
		}
		p.steps = append(p.steps, s)
	}
	for _, o := range present {
		if p.prune && !kept[o.name] && o.remove != nil {
			p.removals = append(p.removals, step{
				applied{Kind: o.kind, Name: o.name, ID: o.id, Action: "deleted", Changes: []change{}},
				func() (string, error) { return o.id, o.remove() },
			})
		}
	}
	return nil
}

// step compares the object with its description.
func (o object) step(target fields) step {
	s := step{applied: applied{Kind: o.kind, Name: o.name, ID: o.id, Action: unchanged, Changes: differences(o.fields, target)}}
	if len(s.Changes) == 0 {
		return s
	}
	changed := fields{}
	for _, c := range s.Changes {
		changed[c.Field] = target[c.Field]
	}
	s.Action, s.act = "updated", func() (string, error) { return o.id, o.update(target, changed) }
	return s
}

// run acts until a step fails, and returns what has been done. A dry run only returns what would be.
func (p *plan) run(dryRun bool) ([]applied, error) {
	results := []applied{}
	for _, s := range slices.Concat(p.steps, p.removals) {
		if !dryRun && s.act != nil {
			var err error
			if s.ID, err = s.act(); err != nil {
				return results, fmt.Errorf("%s %q: %w", s.Kind, s.Name, err)
			}
		}
		results = append(results, s.applied)
	}
	return results, nil
}

// send returns the content of an answer, or the error that it has.
func send(answer *http.Response, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusMultipleChoices {
		return nil, svc.ReadError(answer)
	}
	return io.ReadAll(answer.Body)
}

// refusal returns the error of an answer whose content is not needed.
func refusal(_ []byte, err error) error { return err }

// result decodes the data of an answer.
func result[T any](text []byte, err error) (T, error) {
	var envelope struct{ Data T }
	if err == nil {
		err = json.Unmarshal(text, &envelope)
	}
	return envelope.Data, err
}

const contentType = "application/json"

// body encodes fields that come from JSON.
func body(value fields) io.Reader {
	text, _ := json.Marshal(value)
	return bytes.NewReader(text)
}
