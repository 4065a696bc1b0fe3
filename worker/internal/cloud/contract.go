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

// contractHeader is the response header with the contract version.
const contractHeader = "X-Svc-Contract"

// Fit is the compatibility of the cloud's contract version with this worker.
type Fit string

// The fits.
const (
	FitUnknownYet   Fit = "unheard"      // no answer yet
	FitCompatible   Fit = "fits"         // the same major version, and not older than expected
	FitOlder        Fit = "older"        // the same major version, but an older minor
	FitIncompatible Fit = "incompatible" // another major version
	FitUnstated     Fit = "unknown"      // the answer has no version
)

// Contract is the last known contract version of the cloud.
type Contract struct {
	Expected string // the version that this worker implements
	Actual   string // the last version of the cloud; empty if unknown
	Fit      Fit
}

// Contract returns the contract version of the cloud's latest answer.
func (c *Client) Contract() Contract { return c.contracts.contract() }

// CheckContract asks the cloud for its contract version. If the cloud is
// unreachable or does not state a version, the last known one is kept.
func (c *Client) CheckContract(ctx context.Context) error {
	ctx, cancel := c.callContext(ctx, "getCloudHealth", 0)
	defer cancel()
	answer, err := c.api.GetCloudHealth(ctx) // any status will do
	if err != nil {
		return callFault(err)
	}
	return answer.Body.Close()
}

// checkCompatible asks an incompatible cloud for its version again and returns
// an error if the cloud is still incompatible. No other call is made to such a
// cloud.
func (c *Client) checkCompatible(ctx context.Context) error {
	if c.Contract().Fit != FitIncompatible {
		return nil
	}
	return c.CheckContract(ctx)
}

// contractMonitor compares the contract version of each answer with the
// worker's, and logs changes.
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

// check records the contract version of an answer. It returns an
// *incompatibleError if the answer must not be read.
func (w *contractMonitor) check(answer *http.Response) error {
	stated := answer.Header.Get(contractHeader)
	if stated == "" && !isJSON(answer) {
		return nil // the answer of an intermediary, not of the cloud
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := compareContracts(w.last.Expected, stated)
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
	attrs := []any{"expected", now.Expected, "actual", now.Actual}
	switch now.Fit {
	case FitIncompatible:
		w.logger.ErrorContext(ctx, "the cloud implements another major version of the contract: launches are refused until the versions match", append(attrs, "do", now.remedy())...)
	case FitOlder:
		w.logger.WarnContext(ctx, "the cloud implements an older version of the contract than this worker: it may refuse newer requests", append(attrs, "do", now.remedy())...)
	case FitUnstated:
		w.logger.WarnContext(ctx, "the cloud does not state its contract version: compatibility is unknown", append(attrs, "do", now.remedy())...)
	default:
		w.logger.InfoContext(ctx, "the contract version of the cloud is compatible", attrs...)
	}
}

// compareContracts compares two versions. The patch number is ignored, because
// only changes of the wording increase it.
func compareContracts(expected, stated string) Contract {
	theirs, ok := parse(stated)
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
	return Contract{Expected: expected, Actual: stated, Fit: fit}
}

// parse reads a version of three numbers.
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

// remedy returns instructions for the operator to resolve an incompatibility.
func (c Contract) remedy() string {
	ours, _ := parse(c.Expected)
	theirs, stated := parse(c.Actual)
	if stated && theirs[0] > ours[0] {
		return fmt.Sprintf("update this worker to a release for version %d of the contract", theirs[0])
	}
	return fmt.Sprintf("update the cloud to a release with version %d.%d of the contract, or set SVC_CLOUD_URL to such a cloud", ours[0], ours[1])
}

// incompatibleError reports an answer with another major contract version.
type incompatibleError struct{ Contract }

func (e *incompatibleError) Error() string {
	return fmt.Sprintf("the cloud implements version %s of the contract, this worker version %s", e.Actual, e.Expected)
}

// incompatibleFault returns the fault for an *incompatibleError, and nil for
// any other error. Its kind is Unavailable, so that the caller undoes what the
// cloud may have done once the versions are compatible again.
func incompatibleFault(err error) *fault.Error {
	met, ok := errors.AsType[*incompatibleError](err)
	if !ok {
		return nil
	}
	return fault.Wrap(err, fault.Unavailable, fmt.Sprintf("The cloud implements version %s of the contract, this worker version %s. To launch again, %s.",
		met.Actual, met.Expected, met.remedy()))
}
