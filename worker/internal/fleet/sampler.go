// Package fleet watches the machine that a worker runs on, as far as the worker
// may use it (in a container, what the container may use), and decides whether
// another browser fits.
package fleet

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// averagingPeriod is the time in which CPUAverage follows two thirds of a change.
const averagingPeriod = 10 * time.Second

// Sample of a machine.
type Sample struct {
	At               time.Time
	CPUPercent       float64 // of the processor time that may be used, since the sample before
	CPUAverage       float64 // the same over some ten seconds; begins at 0
	MemoryPercent    float64
	MemoryUsedBytes  int64
	MemoryLimitBytes int64
	Load1            float32
	DiskFreeBytes    int64    // to this worker, of the directory's file system
	PressureCPU      *float64 // percent of the last ten seconds in which something waited for a processor; nil when not told
	PressureMemory   *float64 // the same for memory
}

// Options of a Sampler.
type Options struct {
	Disk   string        // a directory whose free space is told
	Every  time.Duration // by default a second
	Logger *slog.Logger
}

// Sampler keeps a sample that is never much older than its interval. Reading it
// costs nothing.
type Sampler struct {
	root    fs.FS
	options Options
	last    atomic.Pointer[Sample]
	before  cpuReading // of the processors; the goroutine's own
	failing bool       // the goroutine's own
	stop    context.CancelFunc
	running sync.WaitGroup
}

// Start takes a first sample, in which CPUPercent is 0, and goes on until
// Close. It fails when the machine can't be read.
func Start(options Options) (*Sampler, error) { return start(os.DirFS("/"), options) }

func start(root fs.FS, options Options) (*Sampler, error) {
	if options.Every <= 0 {
		options.Every = time.Second
	}
	s := &Sampler{root: root, options: options}
	first, err := s.read(Sample{})
	if err != nil {
		return nil, fmt.Errorf("sample the machine: %w", err)
	}
	s.last.Store(&first)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.running.Go(func() { s.run(ctx) })
	return s, nil
}

// Last returns the last sample.
func (s *Sampler) Last() Sample { return *s.last.Load() }

// Close ends the sampling. The last sample stays.
func (s *Sampler) Close() {
	s.stop()
	s.running.Wait()
}

func (s *Sampler) run(ctx context.Context) {
	tick := time.NewTicker(s.options.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		sample, err := s.read(s.Last())
		if failing := err != nil; failing != s.failing {
			s.failing = failing
			s.options.Logger.WarnContext(ctx, "the state of sampling this machine changed", "failing", failing, "error", err)
		}
		if err == nil {
			s.last.Store(&sample)
		}
	}
}

func (s *Sampler) read(before Sample) (Sample, error) {
	now := time.Now()
	cpu, err := readCPU(s.root, now)
	if err != nil {
		return Sample{}, err
	}
	memory, err := readMemory(s.root)
	if err != nil {
		return Sample{}, err
	}
	load, err := readLoad1(s.root)
	if err != nil {
		return Sample{}, err
	}
	free, err := diskFree(s.options.Disk)
	if err != nil {
		return Sample{}, err
	}
	sample := Sample{
		At: now, CPUPercent: before.CPUPercent, CPUAverage: before.CPUAverage,
		MemoryPercent: memory.percent(), MemoryUsedBytes: int64(memory.used), MemoryLimitBytes: int64(memory.limit),
		Load1: load, DiskFreeBytes: free,
		PressureCPU: readPressure(s.root, "cpu"), PressureMemory: readPressure(s.root, "memory"),
	}
	if percent, ok := cpu.since(s.before); ok {
		weight := 1 - math.Exp(-now.Sub(before.At).Seconds()/averagingPeriod.Seconds())
		sample.CPUPercent = percent
		sample.CPUAverage += weight * (percent - before.CPUAverage)
	}
	s.before = cpu
	return sample, nil
}

func diskFree(dir string) (int64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(stat.Bavail) * stat.Bsize, nil
}
