package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	"github.com/oasdiff/yaml"
)

// organizationKey is the form of an organization key (specification 5.3).
var organizationKey = regexp.MustCompile(`^svc_[a-z2-7]{32}$`)

// object is a Kubernetes object of the chart, with the fields that the checks read.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string // of a Secret
	Spec     struct {
		Replicas                 *int
		PublishNotReadyAddresses bool
		Selector                 any
		Ports                    []struct{ TargetPort string }
		Template                 struct {
			Metadata struct{ Labels map[string]string }
			Spec     podSpec
		}
		Groups []any // of a PrometheusRule
		Egress []any // of a NetworkPolicy
	}
}

type podSpec struct {
	AutomountServiceAccountToken  *bool
	TerminationGracePeriodSeconds int
	HostUsers                     *bool
	SecurityContext               struct {
		RunAsNonRoot    bool
		AppArmorProfile struct{ LocalhostProfile string }
	}
	InitContainers, Containers []container
}

type container struct {
	Name            string
	Lifecycle       any
	Ports           []struct{ Name string }
	SecurityContext struct {
		AllowPrivilegeEscalation *bool
		ReadOnlyRootFilesystem   bool
		ProcMount                string
		Capabilities             struct{ Drop []string }
	}
	Resources struct{ Requests, Limits map[string]string }
	Env       []struct {
		Name, Value string
		ValueFrom   struct{ FieldRef struct{ FieldPath string } }
	}
}

// parseObjects parses what helm template prints.
func parseObjects(text string) (all []object, err error) {
	for document := range strings.SplitSeq(text, "\n---\n") {
		var o object
		if _, err := yaml.Unmarshal([]byte(document), &o, yaml.DecodeOpts{}); err != nil {
			return nil, fmt.Errorf("%w: %.300s", err, document)
		}
		if o.Kind != "" {
			all = append(all, o)
		}
	}
	return all, nil
}

// checkObjects checks the properties that the chart promises for all values.
func checkObjects(all []object) error {
	var problems []error
	want := func(ok bool, o object, what string) {
		if !ok {
			problems = append(problems, fmt.Errorf("%s %s: %s", o.Kind, o.Metadata.Name, what))
		}
	}
	for _, o := range all {
		pod := o.Spec.Template.Spec
		if len(pod.Containers) > 0 {
			want(pod.AutomountServiceAccountToken != nil && !*pod.AutomountServiceAccountToken, o, "its pods have a service account token")
			root := strings.HasSuffix(o.Metadata.Name, "-seccomp") || pod.HostUsers != nil && !*pod.HostUsers
			want(pod.SecurityContext.RunAsNonRoot != root, o, "only the installer of the seccomp profile and workers in a user namespace run as root")
		}
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			s := c.SecurityContext
			want(s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation && s.ReadOnlyRootFilesystem && reflect.DeepEqual(s.Capabilities.Drop, []string{"ALL"}),
				o, "the container "+c.Name+" is not hardened")
			want(c.Resources.Requests["cpu"] != "" && c.Resources.Requests["memory"] != "" && c.Resources.Limits["memory"] != "", o, "the container "+c.Name+" lacks resources")
			want(c.Lifecycle == nil, o, "the container "+c.Name+" has a hook, but the programs drain by themselves")
		}
		switch o.Kind {
		case "Service":
			target := selected(all, o.Spec.Selector)
			want(target != nil, o, "its selector matches no pods")
			for _, port := range o.Spec.Ports {
				want(target != nil && target.hasPort(port.TargetPort), o, "no container has the port "+port.TargetPort)
			}
		case "PodDisruptionBudget":
			labels, _ := o.Spec.Selector.(map[string]any)
			want(selected(all, labels["matchLabels"]) != nil, o, "its selector matches no pods")
		}
	}
	return errors.Join(problems...)
}

// selected returns the object whose pods a selector matches.
func selected(all []object, selector any) *object {
	labels, _ := selector.(map[string]any)
	for i, o := range all {
		matches := len(labels) > 0
		for name, value := range labels {
			matches = matches && o.Spec.Template.Metadata.Labels[name] == value
		}
		if matches {
			return &all[i]
		}
	}
	return nil
}

func (o *object) hasPort(name string) bool {
	for _, c := range o.Spec.Template.Spec.Containers {
		for _, port := range c.Ports {
			if port.Name == name {
				return true
			}
		}
	}
	return false
}

// find returns the only object of a kind whose name has this end, or an empty one.
func find(all []object, kind, end string) object {
	for _, o := range all {
		if o.Kind == kind && strings.HasSuffix(o.Metadata.Name, end) {
			return o
		}
	}
	return object{}
}

// checkDefaults checks the objects of the default values with a bundled database.
func checkDefaults(all []object) error {
	workers := find(all, "StatefulSet", "-worker")
	pod := workers.Spec.Template.Spec
	if workers.Spec.Replicas == nil || *workers.Spec.Replicas != 3 || len(pod.Containers) != 1 {
		return errors.New("want a StatefulSet of three workers with one container")
	}
	if pod.TerminationGracePeriodSeconds != 5+3600+50 {
		return fmt.Errorf("the grace period of workers is %d s", pod.TerminationGracePeriodSeconds)
	}
	// base and 10 sessions
	c := pod.Containers[0]
	if c.Resources.Requests["cpu"] != "2750m" || c.Resources.Requests["memory"] != "4512Mi" || c.Resources.Limits["memory"] != "4512Mi" {
		return fmt.Errorf("the resources of workers are %v", c.Resources)
	}
	variables := make(map[string]string)
	for _, variable := range c.Env {
		variables[variable.Name] = variable.Value + variable.ValueFrom.FieldRef.FieldPath
	}
	for name, value := range map[string]string{
		"WORKER_ID": "metadata.name", "MAX_SESSIONS": "10", "SHUTDOWN_DELAY": "5s", "DRAIN_TIMEOUT": "3600s", "SAVE_TIMEOUT": "30s", "METRICS_ADDR": ":9090",
		"SVC_CLOUD_URL": "http://svc-cloud:8080",
	} {
		if variables[name] != value {
			return fmt.Errorf("%s of workers is %q instead of %q", name, variables[name], value)
		}
	}
	if !find(all, "Service", "-worker").Spec.PublishNotReadyAddresses {
		return errors.New("full and draining workers have no addresses")
	}
	return nil
}

// checkBootstrap checks that the generated organization key has the form that svc-cloud accepts.
func checkBootstrap(all []object) error {
	key, err := base64.StdEncoding.DecodeString(find(all, "Secret", "svc-worker").Data["SVC_KEY"])
	if err != nil || !organizationKey.Match(key) {
		return fmt.Errorf("the organization key has %d characters of another form: %w", len(key), errors.Join(err, errors.New("want svc_ and 32 characters")))
	}
	if job := find(all, "Job", "-bootstrap-1"); job.Kind == "" {
		return errors.New("there is no bootstrap Job")
	}
	return nil
}

// checkAutoscaled checks that an upgrade of the chart leaves the replicas to the autoscaler.
func checkAutoscaled(all []object) error {
	for _, end := range []string{"Deployment -cloud", "StatefulSet -worker"} {
		kind, name, _ := strings.Cut(end, " ")
		if o := find(all, kind, name); o.Kind == "" || o.Spec.Replicas != nil {
			return fmt.Errorf("want a %s %s without replicas", kind, name)
		}
	}
	return nil
}

// checkProduction checks the objects with an existing database and existing Secrets.
func checkProduction(all []object) error {
	if o := find(all, "Secret", ""); o.Kind != "" {
		return fmt.Errorf("the Secret %s is not needed", o.Metadata.Name)
	}
	var groups []any
	files, err := filepath.Glob("scripts/monitoring/rules/*.yaml")
	if err != nil {
		return err
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var rules struct{ Groups []any }
		if _, err := yaml.Unmarshal(text, &rules, yaml.DecodeOpts{}); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		groups = append(groups, rules.Groups...)
	}
	if len(groups) == 0 || !reflect.DeepEqual(find(all, "PrometheusRule", "").Spec.Groups, groups) {
		return errors.New("the PrometheusRule does not have the rules of scripts/monitoring/rules")
	}
	return nil
}

// checkLimited checks workers in user namespaces, and that the network of browsers is limited to what the values allow.
func checkLimited(all []object) error {
	pod := find(all, "StatefulSet", "-worker").Spec.Template.Spec
	if pod.HostUsers == nil || *pod.HostUsers || pod.Containers[0].SecurityContext.ProcMount != "Unmasked" || pod.SecurityContext.AppArmorProfile.LocalhostProfile != "svc-worker" {
		return fmt.Errorf("the security of workers is %+v", pod)
	}
	rules, err := json.Marshal(find(all, "NetworkPolicy", "-worker").Spec.Egress[2:]) // after DNS and the cloud
	want := `[{"ports":[{"port":9000}],"to":[{"podSelector":{"matchLabels":{"app":"minio"}}}]},{"ports":[{"port":3128}],"to":[{"ipBlock":{"cidr":"10.20.0.0/16"}}]}]`
	if string(rules) != want {
		return fmt.Errorf("the egress rules of workers are %s: %w", rules, errors.Join(err, errors.New("want "+want)))
	}
	return nil
}
