// Program monitoring writes the Grafana dashboards of both programs, as JSON, into the
// directory that its argument names. This module also pins promtool.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/grafana/grafana-foundation-sdk/go/units"
	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: monitoring DIRECTORY")
		os.Exit(2)
	}
	if err := errors.Join(write(os.Args[1], cloud()), write(os.Args[1], worker())); err != nil {
		fmt.Fprintln(os.Stderr, "monitoring:", err)
		os.Exit(1)
	}
}

// The metrics that name the instances of the programs.
const (
	cloudInfo  = "svc_cloud_build_info"
	workerInfo = "svc_worker_build_info"
)

// program is the dashboard of a program.
type program struct {
	name string // also of the file
	info string // the metric that names the instances
	rows []row
}

type row struct {
	title  string
	panels []panel
}

// panel is a diagram. $i in an expression selects the chosen instances.
type panel struct {
	title, help string
	unit        string
	queries     []query
}

type query struct{ legend, expr string }

// quantiles are the queries of the median and of a higher quantile of a histogram.
func quantiles(metric, labels string, high string) []query {
	quantile := func(q string) query {
		return query{"p" + q[2:], fmt.Sprintf(`histogram_quantile(%s, sum by (le) (rate(%s_bucket{%s}[$__rate_interval])))`, q, metric, labels)}
	}
	return []query{quantile("0.50"), quantile(high)}
}

// queryBy is a query with one line for each value of a label.
func queryBy(label, expr string) []query {
	return []query{{"{{" + label + "}}", expr}}
}

func cloud() program {
	return program{"svc-cloud", cloudInfo, []row{
		{"Service levels", []panel{
			{"Authorizes: error budget", "The share that is slow or fails; the budget is 1%.", units.PercentUnit, []query{
				{"1 h", "svc:authorize_bad:ratio_rate1h"}, {"6 h", "svc:authorize_bad:ratio_rate6h"}}},
			{"Authorizes: duration", "In the license accounting.", units.Seconds, quantiles("svc_cloud_authorize_seconds", "$i", "0.99")},
			{"Authorizes", "By verdict and reason.", units.RequestsPerSecond, []query{
				{"{{verdict}} {{reason}}", `sum by (verdict, reason) (rate(svc_cloud_authorize_total{$i}[$__rate_interval]))`}}},
			{"Authorizes in one statement", "More under load: concurrent authorizes of an organization share a transaction.", units.Short,
				quantiles("svc_cloud_batch_size", "$i", "0.99")},
		}},
		{"Requests", []panel{
			{"Requests", "The ten operations with most requests.", units.RequestsPerSecond,
				queryBy("operation", `topk(10, sum by (operation) (rate(svc_cloud_http_request_seconds_count{$i}[$__rate_interval])))`)},
			{"Duration (p99)", "The ten slowest operations.", units.Seconds,
				queryBy("operation", `topk(10, histogram_quantile(0.99, sum by (operation, le) (rate(svc_cloud_http_request_seconds_bucket{$i}[$__rate_interval]))))`)},
			{"Errors", "Answers with status 5xx.", units.RequestsPerSecond, []query{
				{"{{operation}} {{code}}", `sum by (operation, code) (rate(svc_cloud_http_request_seconds_count{$i, code=~"5.."}[$__rate_interval]))`}}},
			{"Refusals", "Answers with status 4xx.", units.RequestsPerSecond, []query{
				{"{{operation}} {{code}}", `topk(10, sum by (operation, code) (rate(svc_cloud_http_request_seconds_count{$i, code=~"4.."}[$__rate_interval])))`}}},
		}},
		{"License accounting", []panel{
			{"Slots", "Of all organizations; every replica reports the same number.", units.Short, queryBy("state", `max by (state) (svc_cloud_slots{$i})`)},
			{"Machines", "Workers of all organizations.", units.Short, queryBy("state", `max by (state) (svc_cloud_machines{$i})`)},
			{"Reclaimed slots", "Released because the worker did not report.", units.CountsPerSecond, []query{{"slots", `sum(rate(svc_cloud_reclaimed_total{$i}[$__rate_interval]))`}}},
			{"Reaper and audit", "The time since the reaper succeeded, and repaired counters.", units.Short, []query{
				{"seconds since the reaper succeeded", `time() - max(svc_cloud_reaper_last_success_timestamp_seconds{$i})`},
				{"counters repaired in the last hour", `sum(increase(svc_cloud_audit_counter_repairs_total{$i}[1h]))`}}},
		}},
		{"Database, mail, payments", []panel{
			{"Database connections", "By pool, of all chosen replicas.", units.Short, []query{
				{"{{pool}} in use", `sum by (pool) (svc_cloud_db_pool{$i, state="in_use"})`}, {"{{pool}} maximum", `sum by (pool) (svc_cloud_db_pool{$i, state="max"})`}}},
			{"Requests that wait for a connection", "On average at the same time.", units.Short, queryBy("pool", `sum by (pool) (rate(svc_cloud_db_wait_seconds_sum{$i}[$__rate_interval]))`)},
			{"Oldest queued mail", "", units.Seconds, []query{{"age", `max(svc_cloud_mail_oldest_seconds{$i})`}}},
			{"Refused webhooks", "Events of the payment provider.", units.CountsPerSecond, queryBy("reason", `sum by (reason) (rate(svc_cloud_webhook_failures_total{$i}[$__rate_interval]))`)},
		}},
		process(cloudInfo),
	}}
}

func worker() program {
	return program{"svc-worker", workerInfo, []row{
		{"Service levels", []panel{
			{"Launches: error budget", "The share that fails; the budget is 0.5%.", units.PercentUnit, []query{
				{"1 h", "svc:launch_failed:ratio_rate1h"}, {"6 h", "svc:launch_failed:ratio_rate6h"}}},
			{"Launches: duration", "Of successful launches.", units.Seconds, quantiles("svc_worker_launch_duration_seconds", `$i, step="total"`, "0.95")},
			{"Launches", "By result.", units.RequestsPerSecond, queryBy("result", `sum by (result) (rate(svc_worker_launches_total{$i}[$__rate_interval]))`)},
			{"Steps of a launch (p95)", "Each since the step before.", units.Seconds,
				queryBy("step", `histogram_quantile(0.95, sum by (step, le) (rate(svc_worker_launch_duration_seconds_bucket{$i, step!="total"}[$__rate_interval])))`)},
		}},
		{"Capacity", []panel{
			{"Sessions", "", units.Short, []query{{"sessions", `sum(svc_worker_sessions{$i})`}, {"capacity", `sum(svc_worker_capacity_sessions{$i})`}}},
			{"Workers", "", units.Short, []query{
				{"available", `sum(svc_worker_available{$i})`}, {"draining", `sum(svc_worker_draining{$i})`}, {"all", `count(svc_worker_available{$i})`}}},
			{"Launches that wait for a slot", "", units.Short, []query{{"waiting", `sum(svc_worker_queue_length{$i})`}}},
			{"Time that launches waited for a slot", "", units.Seconds, quantiles("svc_worker_queue_wait_seconds", "$i", "0.95")},
			{"Warm browsers", "Ready, by engine; and the launches that used one.", units.Short, []query{
				{"{{engine}}", `sum by (engine) (svc_worker_warm_browsers{$i})`},
				{"warm launches per second", `sum(rate(svc_worker_launches_total{$i, start="warm"}[$__rate_interval]))`}}},
		}},
		{"Sessions", []panel{
			{"Ends", "By reason.", units.CountsPerSecond, queryBy("reason", `sum by (reason) (rate(svc_worker_session_ends_total{$i}[$__rate_interval]))`)},
			{"CDP connections", "", units.Short, []query{{"connections", `sum(svc_worker_cdp_connections{$i})`}}},
			{"Resumed connections", "By result.", units.CountsPerSecond, queryBy("result", `sum by (result) (rate(svc_worker_resumes_total{$i}[$__rate_interval]))`)},
			{"Saved profiles, denied requests", "By result and reason.", units.CountsPerSecond, []query{
				{"profile {{result}}", `sum by (result) (rate(svc_worker_profile_saves_total{$i}[$__rate_interval]))`},
				{"denied {{reason}}", `sum by (reason) (rate(svc_worker_egress_denied_total{$i}[$__rate_interval]))`}}},
			{"Handovers to persons", "Open, and ended by outcome.", units.Short, []query{
				{"open", `sum(svc_worker_handovers_open{$i})`},
				{"{{outcome}} per second", `sum by (outcome) (rate(svc_worker_handovers_total{$i}[$__rate_interval]))`}}},
		}},
		{"Cloud", []panel{
			{"Requests to the cloud", "By operation and status.", units.RequestsPerSecond, []query{
				{"{{operation}} {{code}}", `sum by (operation, code) (rate(svc_worker_cloud_request_seconds_count{$i}[$__rate_interval]))`}}},
			{"Requests to the cloud: duration (p99)", "", units.Seconds,
				queryBy("operation", `histogram_quantile(0.99, sum by (operation, le) (rate(svc_worker_cloud_request_seconds_bucket{$i}[$__rate_interval])))`)},
			{"Oldest report that is not acknowledged", "", units.Seconds, queryBy("instance", `max by (instance) (svc_worker_report_backlog_age_seconds{$i}) > 0`)},
		}},
		process(workerInfo),
	}}
}

// process is the row of the process itself. Every program has these metrics, so they are
// joined with the metric that only this program has.
func process(info string) row {
	queries := func(expr string) []query { return queryBy("instance", expr+" and on (job, instance) "+info) }
	return row{"Process", []panel{
		{"CPU", "Processors in use.", units.Short, queries(`rate(process_cpu_seconds_total{$i}[$__rate_interval])`)},
		{"Memory", "Without the browsers.", units.BytesIEC, queries(`process_resident_memory_bytes{$i}`)},
		{"Goroutines", "", units.Short, queries(`go_goroutines{$i}`)},
		{"Open files", "", units.Short, queries(`process_open_fds{$i}`)},
	}}
}

// Rows have two panels side by side on a grid of 24 columns.
const (
	panelWidth  = 12
	panelHeight = 7
)

func (p program) build() (dashboard.Dashboard, error) {
	source := common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("$datasource")}
	text := func(s string) dashboard.StringOrMap { return dashboard.StringOrMap{String: &s} }
	d := dashboard.NewDashboardBuilder(p.name).Uid(p.name).Tags([]string{"svc"}).Readonly().
		Time("now-6h", "now").Refresh("1m").Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		WithVariable(dashboard.NewQueryVariableBuilder("instance").Label("Instance").Datasource(source).
			Query(text("label_values(" + p.info + ", instance)")).Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
			Multi(true).IncludeAll(true).AllValue(".*").
			Current(dashboard.VariableOption{
				Text: dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}}, Value: dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
			}))
	for _, r := range p.rows {
		d.WithRow(dashboard.NewRowBuilder(r.title))
		for _, each := range r.panels {
			d.WithPanel(each.build(source))
		}
	}
	return d.Build()
}

func (p panel) build(source common.DataSourceRef) *timeseries.PanelBuilder {
	promql := parser.NewParser(parser.Options{})
	b := timeseries.NewPanelBuilder().Title(p.title).Description(p.help).Unit(p.unit).Min(0).
		Span(panelWidth).Height(panelHeight).Datasource(source).LineWidth(1).FillOpacity(5).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)).
		Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).ShowLegend(true))
	for i, q := range p.queries {
		expr := strings.ReplaceAll(q.expr, "$i", `instance=~"$instance"`)
		if _, err := promql.ParseExpr(strings.ReplaceAll(expr, "$__rate_interval", "5m")); err != nil {
			b.RecordError(p.title, fmt.Errorf("%s: %w", expr, err))
		}
		b.WithTarget(prometheus.NewDataqueryBuilder().RefId(string(rune('A' + i))).Expr(expr).LegendFormat(q.legend).Range())
	}
	return b
}

func write(directory string, p program) error {
	built, err := p.build()
	if err != nil {
		return fmt.Errorf("build the dashboard of %s: %w", p.name, err)
	}
	text, err := json.MarshalIndent(built, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(directory, p.name+".json"), append(text, '\n'), 0o644)
}
