package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/browser-svc/svc/shared/benchresult"
)

// hostUser is a script that runs the worker of a directory as the user of the image.
const hostUser = `#!/bin/sh
install -d -o 65532 -g 65532 "$DATA_DIR" && exec setpriv --reuid=65532 --regid=65532 --clear-groups %q/svc-worker
`

// containerRatio is the target of launches in a container, compared with the host.
const containerRatio = 1.1

// runImage measures launches of the image beside those of the same program on this host, as
// the same user.
func runImage(ctx context.Context, o options) (err error) {
	e, err := newBrowserEnvironment(ctx, "a cloud and four workers, two of them in the image svc-worker")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	image, err := filepath.Abs("scripts/images-worker")
	if err != nil {
		return err
	}
	err = errors.Join(os.WriteFile(filepath.Join(e.dir, "host"), fmt.Appendf(nil, hostUser, e.dir), 0o755), os.Symlink(image, filepath.Join(e.dir, "container")))
	if err != nil {
		return err
	}
	var sides []benchresult.Side[visit]
	for _, pool := range []int{poolSize, 0} {
		for _, program := range []string{"container", "host"} {
			w, err := e.workerOf(ctx, program, fmt.Sprintf("%s-%d", program, pool), fmt.Sprintf("WARM_POOL=%d,4", pool))
			if err != nil {
				return err
			}
			sides = append(sides, w.visit)
		}
	}
	return o.report(ctx, benchresult.Report{
		Title: "Container", Command: "make bench-image", On: []string{e.build.version}, Rounds: o.rounds,
		Notes: "The image svc-worker with the options of docker-compose.yml and the network of the host, beside the same program on the host as the same user.\n",
	}, benchresult.Parts{{Name: "starts", What: "launches in the image and on the host", Measure: func(ctx context.Context) (rows []benchresult.Row, err error) {
		measured, err := benchresult.Interleave(ctx, o.rounds, sides...)
		if err != nil {
			return nil, err
		}
		for i, kind := range []string{"warm launch", "cold launch"} {
			rows = append(rows, containerRows(kind, measured[2*i], measured[2*i+1])...)
		}
		return rows, nil
	}}})
}

// containerRows compares the launches of one kind.
func containerRows(kind string, container, host []visit) (rows []benchresult.Row) {
	for _, f := range []struct {
		name   string
		figure func(visit) float64
	}{{"the first CDP answer", answered}, {"a loaded page", loaded}} {
		for _, q := range []struct {
			name  string
			share float64
		}{{"median", 0.5}, {"p95", 0.95}} {
			row := benchresult.Row{
				What: fmt.Sprintf("%s to %s, %s", kind, f.name, q.name), Unit: "ms", Than: "on the host",
				Ours: benchresult.Quantile(container, q.share, f.figure), Other: benchresult.Quantile(host, q.share, f.figure),
			}
			if q.share == 0.5 {
				row.Target = benchresult.AtMost(containerRatio)
			}
			rows = append(rows, row)
		}
	}
	return rows
}
