package cloud

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/fault"
)

// contractHeader names the version of the contract that an answer keeps.
const contractHeader = "X-Svc-Contract"

// Fit says whether the cloud and this worker understand each other.
type Fit string

// The fits.
const (
	FitUnknownYet   Fit = "unheard"      // the cloud has not answered yet
	FitCompatible   Fit = "fits"         // the same major version, and not older than expected
	FitOlder        Fit = "older"        // the same major version, but an older minor
	FitIncompatible Fit = "incompatible" // another major version
	FitUnstated     Fit = "unknown"      // the cloud does not say
)

// Contract is what is known of the contract that the cloud keeps.
type Contract struct {
	Expected string // the version that this worker was made for
	Actual   string // what the cloud said last; empty for nothing
	Fit      Fit
}

// Contract is what the cloud's latest answer says.
func (c *Client) Contract() Contract { return c.contracts.contract() }

// CheckContract asks the cloud which contract it keeps. A cloud that can't be
// reached, or does not say, leaves what is known as it is.
func (c *Client) CheckContract(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err := c.api.GetCloudHealth(ctx) // any status will do
	if err != nil {
		return callFault(err)
	}
	return answer.Body.Close()
}

// checkCompatible makes sure that a cloud that kept an incompatible contract no
// longer does: such a cloud is asked for nothing but that.
func (c *Client) checkCompatible(ctx context.Context) error {
	if c.Contract().Fit != FitIncompatible {
		return nil
	}
	return c.CheckContract(ctx)
}

// contractMonitor compares what each answer says of the contract with what this worker
// was made for, and logs what doesn't fit, once a change.
type contractMonitor struct {
	logger *slog.Logger

	mu   sync.Mutex
	last Contract
}

func newContractMonitor(log *slog.Logger) *contractMonitor {
	return &contractMonitor{logger: log, last: Contract{Expected: cloudapi.ContractVersion, Fit: FitUnknownYet}}
}

func (w *contractMonitor) contract() Contract {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// check takes in an answer. Its error is an *incompatibleError: an answer in
// another contract must not be read.
func (w *contractMonitor) check(answer *http.Response) error {
	said := answer.Header.Get(contractHeader)
	if said == "" && !isJSON(answer) {
		return nil // not the cloud's own words, but those of something on the way
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := compareContracts(w.last.Expected, said)
	if now != w.last {
		w.log(answer.Request.Context(), now)
		w.last = now
	}
	if now.Fit == FitIncompatible {
		return &incompatibleError{now}
	}
	return nil
}

func isJSON(answer *http.Response) bool {
	mediaType, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	return err == nil && mediaType == "application/json"
}

func (w *contractMonitor) log(ctx context.Context, now Contract) {
	about := []any{"expected", now.Expected, "actual", now.Actual}
	switch now.Fit {
	case FitIncompatible:
		w.logger.ErrorContext(ctx, "the cloud keeps another major version of the contract: no browser is launched until it fits", append(about, "do", now.remedy())...)
	case FitOlder:
		w.logger.WarnContext(ctx, "the cloud keeps an older version of the contract than this worker was made for: it may refuse what it does not know yet", append(about, "do", now.remedy())...)
	case FitUnstated:
		w.logger.WarnContext(ctx, "the cloud does not say which version of the contract it keeps: whether it fits is not known", append(about, "do", now.remedy())...)
	default:
		w.logger.InfoContext(ctx, "the cloud's contract fits", about...)
	}
}

// compareContracts compares versions. The third number changes only words.
func compareContracts(expected, said string) Contract {
	theirs, ok := parse(said)
	if !ok {
		return Contract{Expected: expected, Fit: FitUnstated}
	}
	ours, _ := parse(expected)
	fit := FitCompatible
	switch {
	case theirs[0] != ours[0]:
		fit = FitIncompatible
	case theirs[1] < ours[1]:
		fit = FitOlder
	}
	return Contract{Expected: expected, Actual: said, Fit: fit}
}

// parse reads three numbers with dots between them.
func parse(version string) (numbers [3]int, ok bool) {
	parts := strings.Split(version, ".")
	if len(parts) != len(numbers) {
		return numbers, false
	}
	for i, part := range parts {
		number, err := strconv.ParseUint(part, 10, 31)
		if err != nil || strconv.FormatUint(number, 10) != part {
			return numbers, false
		}
		numbers[i] = int(number)
	}
	return numbers, true
}

// remedy is what the operator can do about a contract that does not fit.
func (c Contract) remedy() string {
	ours, _ := parse(c.Expected)
	theirs, said := parse(c.Actual)
	if said && theirs[0] > ours[0] {
		return fmt.Sprintf("update this worker to a release that was made for version %d of the contract", theirs[0])
	}
	return fmt.Sprintf("update the cloud to a release that keeps version %d.%d of the contract, or point SVC_CLOUD_URL at one that does", ours[0], ours[1])
}

// incompatibleError is an answer that keeps another major version of the
// contract.
type incompatibleError struct{ Contract }

func (e *incompatibleError) Error() string {
	return fmt.Sprintf("the cloud keeps version %s of the contract, and this worker was made for %s", e.Actual, e.Expected)
}

// incompatibleFault is the fault of a call that met an incompatible cloud; nil when
// err is of another kind. It is Unavailable, so that what the cloud may have
// done all the same is taken back once it fits.
func incompatibleFault(err error) *fault.Error {
	met, ok := errors.AsType[*incompatibleError](err)
	if !ok {
		return nil
	}
	return fault.Wrap(err, fault.Unavailable, fmt.Sprintf("The cloud keeps version %s of the contract, and this worker was made for %s. To launch again, %s.",
		met.Actual, met.Expected, met.remedy()))
}
