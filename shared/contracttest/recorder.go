package contracttest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
)

// ObservationsVariable is the environment variable with the directory in which
// processes record the responses that they validated. It must be an absolute path,
// because tests run in the directories of their packages.
const ObservationsVariable = "CONTRACT_SEEN"

// Observation is an operation and an observed response status.
type Observation struct {
	Surface     string // cloud or worker
	OperationID string
	Status      int
}

// surfaces are the recorded documents by title. Other documents, such as those of
// tests, are not recorded.
var surfaces = map[string]string{"svc cloud API": "cloud", "svc worker API": "worker"}

// recorder records each observation of a document once.
type recorder struct {
	surface, file string

	mu      sync.Mutex
	entries map[Observation]bool
}

// newRecorder returns nil, a recorder that records nothing, if recording is
// disabled.
func newRecorder(spec *openapi3.T) *recorder {
	dir, surface := os.Getenv(ObservationsVariable), ""
	if spec.Info != nil {
		surface = surfaces[spec.Info.Title]
	}
	if dir == "" || surface == "" {
		return nil
	}
	return &recorder{surface: surface, file: filepath.Join(dir, strconv.Itoa(os.Getpid())), entries: map[Observation]bool{}}
}

// add appends a line to the file of this process. Each line is written at once, so
// other writers cannot split it.
func (b *recorder) add(x *Exchange) error {
	if b == nil || x.OperationID() == "" {
		return nil
	}
	entry := Observation{b.surface, x.OperationID(), x.Status()}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.entries[entry] {
		return nil
	}
	if !filepath.IsAbs(b.file) {
		return fmt.Errorf("%s must be an absolute path", ObservationsVariable)
	}
	if err := os.MkdirAll(filepath.Dir(b.file), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(b.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%s %s %d\n", entry.Surface, entry.OperationID, entry.Status)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	b.entries[entry] = true
	return nil
}

// ReadObservations reads the observations of all processes from the directory.
func ReadObservations(dir string) (map[Observation]bool, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	all := map[Observation]bool{}
	for _, entry := range files {
		if err := readObservations(filepath.Join(dir, entry.Name()), all); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
	}
	return all, nil
}

func readObservations(name string, into map[Observation]bool) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var observation Observation
		if _, err := fmt.Sscanf(lines.Text(), "%s %s %d", &observation.Surface, &observation.OperationID, &observation.Status); err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		into[observation] = true
	}
	return lines.Err()
}
