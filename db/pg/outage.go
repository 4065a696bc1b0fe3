package pg

import (
	"errors"
	"time"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
)

// ErrReadOnly is a server that takes no writes, since it is a standby or only reading is allowed there.
var ErrReadOnly = errors.New("the database is a standby, or read-only")

// Outage is why the database can't do now what it can do at other times. The same
// request may succeed after RetryAfter. Its message is for the caller.
type Outage struct {
	Message    string
	RetryAfter time.Duration
}

// TimedOut is a database that is there and does not answer.
var TimedOut = Outage{"The database did not answer in time. Try again later.", 5 * time.Second}

var (
	unreachable   = Outage{"The database cannot be reached. Try again later.", 5 * time.Second}
	restarting    = Outage{"The database is starting up or shutting down. Try again later.", 5 * time.Second}
	noConnections = Outage{"The database has no free connection. Try again later.", 2 * time.Second}
	lockTimeout   = Outage{"Another request holds a lock for too long. Try again later.", 2 * time.Second}
	diskFull      = Outage{"The database has no space left for new data. Try again later.", 30 * time.Second}
	outOfMemory   = Outage{"The database has not enough memory for this request. Try again later.", 10 * time.Second}
	readOnly      = Outage{"The database is read-only at the moment. Try again later.", 5 * time.Second}
	ioFailure     = Outage{"The database cannot read or write its files. Try again later.", 30 * time.Second}
)

// outages is the one table from what PostgreSQL says to an outage.
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

// OutageOf returns the outage that err tells of, and whether it is one. Of a
// context that has ended it knows nothing: whose it was decides.
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
