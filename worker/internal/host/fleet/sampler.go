// Package fleet samples the resources that the worker may use (in a container,
// those of the container) and decides whether another browser fits.
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

// averagingPeriod is the time constant of CPUAverage.
const averagingPeriod = 10 * time.Second

// Sample is the state of the machine at a time.
type Sample struct {
	At               time.Time
	CPUPercent       float64 // of the usable processor time, since the previous sample
	CPUAverage       float64 // the same, averaged over about ten seconds; starts at 0
	MemoryPercent    float64
	MemoryUsedBytes  int64
	MemoryLimitBytes int64
	Load1            float32
	DiskFreeBytes    int64    // available to this worker on the file system of Options.Disk
	FreeDescriptors  int64    // that this process can still open
	PressureCPU      *float64 // percent of the last ten seconds in which a task waited for a processor; nil if unknown
	PressureMemory   *float64 // the same for memory
}

// Options configures a Sampler.
type Options struct {
	Disk   string        // directory whose free space is sampled
	Every  time.Duration // default: one second
	Logger *slog.Logger
}

// Sampler samples the machine periodically. Reading the last sample is cheap.
type Sampler struct {
	root    fs.FS
	options Options
	last    atomic.Pointer[Sample]
	before  cpuReading // of the processors; used by the goroutine only
	failing bool       // used by the goroutine only
	stop    context.CancelFunc
	running sync.WaitGroup
}

// Start takes the first sample, with CPUPercent 0, and samples until Close. It
// returns an error if the machine cannot be sampled.
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
	first.FreeDescriptors = freeDescriptors()
	s.last.Store(&first)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.running.Go(func() { s.run(ctx) })
	return s, nil
}

// Last returns the last sample.
func (s *Sampler) Last() Sample { return *s.last.Load() }

// Close stops sampling. The last sample remains available.
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
		last := s.Last()
		sample, err := s.read(last)
		if failing := err != nil; failing != s.failing {
			s.failing = failing
			s.options.Logger.WarnContext(ctx, "sampling of this machine changed state", "failing", failing, "error", err)
		}
		if err != nil { // also without free descriptors
			sample = last
		}
		sample.FreeDescriptors = freeDescriptors()
		s.last.Store(&sample)
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
