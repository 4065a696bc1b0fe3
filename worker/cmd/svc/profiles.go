package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/oasdiff/yaml"
	"github.com/spf13/cobra"

	svc "github.com/browser-svc/svc/openapi/sdk/go"
)

func (a *app) profilesCommand() *cobra.Command {
	ls := &cobra.Command{Use: "ls", Short: "List the profiles", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		ctx, stop := within(callLimit)
		defer stop()
		cloud, err := a.cloud()
		if err != nil {
			return err
		}
		profiles, err := cloud.Profiles(ctx)
		if err != nil {
			return err
		}
		if a.json {
			return a.emit(append([]svc.Profile{}, profiles...))
		}
		rows := [][]string{{"PROFILE", "BROWSER", "SESSIONS", "LAST USED", "NAME"}}
		for _, p := range profiles {
			rows = append(rows, []string{p.Id.String(), fmt.Sprint(p.BrowserVersion), fmt.Sprint(p.ActiveSessions), age(p.LastUsedAt), p.Name})
		}
		return a.list(rows)
	}}
	get := &cobra.Command{Use: "get PROFILE", Short: "Print a profile as YAML for apply, by its id or its name", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
		ctx, stop := within(callLimit)
		defer stop()
		profile, err := a.findProfile(ctx, args[0])
		if err != nil {
			return err
		}
		if a.json {
			return a.emit(profile)
		}
		fields, err := asMap(profile)
		if err != nil {
			return err
		}
		text, err := yaml.Marshal(applicable(fields))
		if err == nil {
			_, err = a.out.Write(text)
		}
		return err
	}}
	return group("profiles", "List, get and apply profiles", ls, get, a.applyCommand())
}

// readOnlyFields are fields of profiles that requests do not have, or have with secrets.
var readOnlyFields = []string{
	"id", "organizationId", "version", "ephemeral", "activeSessions", "lastUsedAt", "createdBy", "createdAt", "updatedAt", "hasPassword", "clientCertificates",
}

// applicable returns the fields of a profile that svc profiles apply accepts, without those that have no value.
func applicable(fields map[string]any) map[string]any {
	kept := map[string]any{}
	for name, value := range fields {
		if object, ok := value.(map[string]any); ok && name == "proxy" {
			value = applicable(object)
		}
		if filled := reflect.ValueOf(value); slices.Contains(readOnlyFields, name) || !filled.IsValid() ||
			slices.Contains([]reflect.Kind{reflect.Map, reflect.Slice, reflect.String}, filled.Kind()) && filled.Len() == 0 {
			continue
		}
		kept[name] = value
	}
	return kept
}

// findProfile finds a profile by its id or its name.
func (a *app) findProfile(ctx context.Context, given string) (*svc.Profile, error) {
	cloud, err := a.cloud()
	if err != nil {
		return nil, err
	}
	profiles, err := cloud.Profiles(ctx)
	if err != nil {
		return nil, err
	}
	found, err := matchProfile(profiles, given)
	if err == nil && found == nil {
		err = &codeError{exitNotFound, fmt.Errorf("no profile %q: svc profiles ls lists them", given)}
	}
	return found, err
}

// matchProfile returns nil if no profile has this id or name.
func matchProfile(profiles []svc.Profile, given string) (*svc.Profile, error) {
	var found *svc.Profile
	for i, p := range profiles {
		switch {
		case p.Id.String() == given:
			return &profiles[i], nil
		case p.Name != given:
		case found != nil:
			return nil, &codeError{exitUsage, fmt.Errorf("several profiles have the name %q, such as %s and %s: use the id", given, found.Id, p.Id)}
		default:
			found = &profiles[i]
		}
	}
	return found, nil
}

func (a *app) applyCommand() *cobra.Command {
	var file string
	var dryRun bool
	c := &cobra.Command{
		Use: "apply -f FILE", Short: "Create or update the profiles of a file", Args: cobra.NoArgs,
		Long: `Creates or updates the profiles of a YAML or JSON file, by name: one profile, or a list. Fields are those of CreateProfileRequest.
Fields that the file does not have are not changed, and null clears a field. The values that the cloud does not return, such as
the password of a proxy, are sent each time.`,
		Example: "  svc profiles apply -f profiles.yaml --dry-run",
		RunE:    func(*cobra.Command, []string) error { return a.apply(file, dryRun) },
	}
	c.Flags().StringVarP(&file, "file", "f", "", "the `FILE` with the profiles; - for standard input")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "show the differences only")
	_ = c.MarkFlagRequired("file") // the flag exists
	return c
}

// applied is what has been done with a profile of the file, as --json prints it.
type applied struct {
	Kind    string   `json:"kind,omitempty"` // only of svc apply, such as member
	Name    string   `json:"name"`
	ID      string   `json:"id,omitempty"` // absent before it is created
	Action  string   `json:"action"`       // created, updated, unchanged or deleted
	Changes []change `json:"changes"`
}

func (a *app) apply(file string, dryRun bool) error {
	text, err := a.readAll(file)
	if err != nil {
		return err
	}
	described, err := parseProfiles(text)
	if err != nil {
		return &codeError{exitUsage, fmt.Errorf("%s: %w", file, err)}
	}
	p, err := a.newPlan(fields{"profiles": described}, false)
	if err != nil {
		return err
	}
	ctx, stop := within(callLimit)
	defer stop()
	if err := p.addProfiles(ctx, described); err != nil {
		return err
	}
	results, err := p.run(dryRun)
	for i := range results {
		results[i].Kind = "" // all are profiles
	}
	if a.json {
		return errors.Join(a.emit(results), err)
	}
	a.printApplied(results, dryRun)
	return err
}

func (a *app) printApplied(results []applied, dryRun bool) {
	for _, result := range results {
		note := ""
		if dryRun && result.Action != "unchanged" {
			note = " (dry run: nothing was changed)"
		}
		_, _ = fmt.Fprintln(a.out, printable(strings.TrimPrefix(result.Kind+" ", " ")+result.Name+": "+result.Action+note))
		for _, c := range result.Changes {
			line := c.String()
			if result.Action == "created" {
				line = strings.TrimSuffix(line, " instead of null")
			}
			_, _ = fmt.Fprintln(a.out, printable("  "+line))
		}
	}
}

// parseProfiles reads one profile or a list of profiles.
func parseProfiles(text []byte) ([]any, error) {
	var content any
	if _, err := yaml.Unmarshal(text, &content, yaml.DecodeOpts{}); err != nil {
		return nil, err
	}
	if items, isList := content.([]any); isList {
		return items, nil
	}
	return []any{content}, nil
}

func asMap(value any) (map[string]any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	return fields, json.Unmarshal(text, &fields)
}

// change is a field of a profile that differs.
type change struct {
	Field  string `json:"field"`
	Before any    `json:"before"`
	After  any    `json:"after"` // without secrets
}

// String is such as: locale: "de-DE" instead of null.
func (c change) String() string {
	before, _ := json.Marshal(c.Before) // both come from JSON
	after, _ := json.Marshal(c.After)
	return fmt.Sprintf("%s: %s instead of %s", c.Field, after, before)
}

// differences lists the fields that a profile has with another value, or that cannot be compared.
func differences(present, fields map[string]any) []change {
	changes := []change{}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if !equal(present[field], fields[field], slices.Contains(reducedFields, field)) {
			changes = append(changes, change{field, present[field], masked(fields[field])})
		}
	}
	return changes
}

// reducedFields are returned with other fields than they are sent with, and without secrets.
var reducedFields = []string{"proxy", "clientCertificates"}

// equal compares two values; a field that is null and one that is missing are the same. In a reduced value, other fields
// than the described ones do not count.
func equal(present, described any, reduced bool) bool {
	switch described := described.(type) {
	case map[string]any:
		object, _ := present.(map[string]any)
		same := object != nil
		for name, value := range described {
			same = same && equal(object[name], value, reduced)
		}
		for name, value := range object {
			same = same && (reduced || value == nil || described[name] != nil)
		}
		return same
	case []any:
		list, ok := present.([]any)
		return ok && slices.EqualFunc(list, described, func(a, b any) bool { return equal(a, b, reduced) })
	}
	return reflect.DeepEqual(present, described)
}

// secretFields are the fields of profiles that are never shown.
var secretFields = []string{"password", "key", "pfx", "passphrase"}

// masked replaces secrets.
func masked(value any) any {
	switch value := value.(type) {
	case map[string]any:
		copied := map[string]any{}
		for name, inner := range value {
			if copied[name] = masked(inner); slices.Contains(secretFields, name) && inner != nil {
				copied[name] = "(secret)"
			}
		}
		return copied
	case []any:
		copied := make([]any, len(value))
		for i, inner := range value {
			copied[i] = masked(inner)
		}
		return copied
	}
	return value
}
