package pg

import (
	"errors"
	"time"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
)

// ErrReadOnly means that the server accepts no writes.
var ErrReadOnly = errors.New("the database is a standby, or read-only")

// Outage is a temporary failure of the database. The request may succeed after
// RetryAfter. The message is public.
type Outage struct {
	Message    string
	RetryAfter time.Duration
}

// TimedOut is the outage for a database that does not respond in time.
var TimedOut = Outage{"The database did not answer in time. Try again later.", 5 * time.Second}

var (
	unreachable   = Outage{"The database cannot be reached. Try again later.", 5 * time.Second}
	restarting    = Outage{"The database is starting up or shutting down. Try again later.", 5 * time.Second}
	noConnections = Outage{"The database has no free connection. Try again later.", 2 * time.Second}
	lockTimeout   = Outage{"Another request holds a lock for too long. Try again later.", 2 * time.Second}
	diskFull      = Outage{"The database has no space left for new data. Try again later.", 30 * time.Second}
	outOfMemory   = Outage{"The database does not have enough memory for this request. Try again later.", 10 * time.Second}
	readOnly      = Outage{"The database is read-only at the moment. Try again later.", 5 * time.Second}
	ioFailure     = Outage{"The database cannot read or write its files. Try again later.", 30 * time.Second}
)

// outages maps PostgreSQL error codes to outages.
var outages = map[pqerror.Code]Outage{
	pqerror.AdminShutdown:                   restarting,
	pqerror.CrashShutdown:                   restarting,
	pqerror.CannotConnectNow:                restarting,
	pqerror.TooManyConnections:              noConnections,
	pqerror.QueryCanceled:                   TimedOut, // by statement_timeout
	pqerror.TransactionTimeout:              TimedOut,
	pqerror.IdleInTransactionSessionTimeout: TimedOut,
	pqerror.LockNotAvailable:                lockTimeout,
	pqerror.DiskFull:                        diskFull,
	pqerror.OutOfMemory:                     outOfMemory,
	pqerror.ReadOnlySQLTransaction:          readOnly,
	pqerror.IOError:                         ioFailure,
}

// OutageOf returns the outage of err, and whether err is one. It does not classify
// context errors, because only the caller knows why the context ended.
func OutageOf(err error) (Outage, bool) {
	if errors.Is(err, ErrReadOnly) {
		return readOnly, true
	}
	if e := pq.As(err); e != nil {
		if outage, ok := outages[e.Code]; ok {
			return outage, true
		}
	}
	return unreachable, IsUnavailable(err)
}
