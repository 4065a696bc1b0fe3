package pg

import (
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
)

// IsUnique reports whether err is a violation of that unique constraint or
// unique index; an empty name means any.
func IsUnique(err error, constraint string) bool {
	return violates(err, pqerror.UniqueViolation, constraint)
}

// IsForeignKey reports whether err is a violation of that foreign key; an empty
// name means any.
func IsForeignKey(err error, constraint string) bool {
	return violates(err, pqerror.ForeignKeyViolation, constraint)
}

func violates(err error, code pqerror.Code, constraint string) bool {
	e := pq.As(err, code)
	return e != nil && (constraint == "" || e.Constraint == constraint)
}

// IsUnavailable reports whether the server is unreachable, is starting up or
// shutting down, has no free connection, closed the connection or did not respond
// in time. A retry may succeed. The interrupted statement may have taken effect.
func IsUnavailable(err error) bool {
	if e := pq.As(err); e != nil {
		switch e.Code {
		case pqerror.AdminShutdown, pqerror.CrashShutdown, pqerror.CannotConnectNow, pqerror.TooManyConnections:
			return true
		}
		return e.Code.Class() == "08" // connection exceptions
	}
	for _, cause := range []error{
		driver.ErrBadConn, io.EOF, io.ErrUnexpectedEOF, os.ErrDeadlineExceeded,
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, syscall.EHOSTUNREACH, syscall.ENETUNREACH,
	} {
		if errors.Is(err, cause) {
			return true
		}
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// isTransient reports whether the transaction failed because of a concurrent one
// and can be retried.
func isTransient(err error) bool {
	return pq.As(err, pqerror.TRSerializationFailure, pqerror.TRDeadlockDetected) != nil
}
