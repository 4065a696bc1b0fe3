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

// Slow is a database that is there and does not answer.
var Slow = Outage{"The database did not answer in time. Try again later.", 5 * time.Second}

var (
	unreachable = Outage{"The database cannot be reached. Try again later.", 5 * time.Second}
	restarting  = Outage{"The database is starting up or shutting down. Try again later.", 5 * time.Second}
	crowded     = Outage{"The database has no free connection. Try again later.", 2 * time.Second}
	locked      = Outage{"Another request holds a lock for too long. Try again later.", 2 * time.Second}
	full        = Outage{"The database has no space left for new data. Try again later.", 30 * time.Second}
	exhausted   = Outage{"The database has not enough memory for this request. Try again later.", 10 * time.Second}
	readOnly    = Outage{"The database is read-only at the moment. Try again later.", 5 * time.Second}
	broken      = Outage{"The database cannot read or write its files. Try again later.", 30 * time.Second}
)

// outages is the one table from what PostgreSQL says to an outage.
var outages = map[pqerror.Code]Outage{
	pqerror.AdminShutdown:                   restarting,
	pqerror.CrashShutdown:                   restarting,
	pqerror.CannotConnectNow:                restarting,
	pqerror.TooManyConnections:              crowded,
	pqerror.QueryCanceled:                   Slow, // by statement_timeout
	pqerror.TransactionTimeout:              Slow,
	pqerror.IdleInTransactionSessionTimeout: Slow,
	pqerror.LockNotAvailable:                locked,
	pqerror.DiskFull:                        full,
	pqerror.OutOfMemory:                     exhausted,
	pqerror.ReadOnlySQLTransaction:          readOnly,
	pqerror.IOError:                         broken,
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
