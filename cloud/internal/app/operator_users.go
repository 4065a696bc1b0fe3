package app

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/cloud/internal/accounts/auth"
	"github.com/browser-svc/svc/cloud/internal/platform/mail"
	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/page"
	"github.com/browser-svc/svc/shared/program"
)

// usersCommand manages users. It prints results to out.
func usersCommand(out io.Writer) program.Command[Config] {
	return program.Command[Config]{
		Name: "users", Summary: "Manage users: list, verify addresses, reset passwords, disable accounts",
		Commands: []program.Command[Config]{listUsers(out), verifyUser(out), resetPassword(out), disableUser(out), enableUser(out)},
	}
}

const userDoc = "The user's e-mail address or ID"

// userView is a user as the commands print it.
type userView struct {
	ID            uuid.UUID  `json:"id"`
	Email         string     `json:"email"`
	Name          string     `json:"name"`
	EmailVerified bool       `json:"emailVerified"`
	DisabledAt    *time.Time `json:"disabledAt"`
	Sessions      int        `json:"sessions"`
	LastSeenAt    *time.Time `json:"lastSeenAt"`
	CreatedAt     time.Time  `json:"createdAt"`
}

func newUserView(a auth.Account) userView {
	return userView{
		ID: a.ID, Email: a.Email, Name: a.Name, EmailVerified: a.EmailVerifiedAt != nil, DisabledAt: a.DisabledAt,
		Sessions: a.Sessions, LastSeenAt: a.LastSeenAt, CreatedAt: a.CreatedAt.UTC(),
	}
}

func (u userView) status() string {
	switch {
	case u.DisabledAt != nil:
		return "disabled"
	case !u.EmailVerified:
		return "unverified"
	default:
		return "active"
	}
}

func listUsers(out io.Writer) program.Command[Config] {
	return listCommand[auth.Account, userView]{
		summary: "List the users, the oldest first",
		search:  "Only those whose address or name contains this `TEXT`",
		header:  "ID\tE-MAIL\tSTATUS\tSESSIONS\tLAST SEEN\tCREATED\tNAME",
		list: func(ctx context.Context, o *operator, search string, r page.Request) (page.Page[auth.Account], error) {
			return o.users.List(ctx, search, r)
		},
		view: func(_ context.Context, _ *operator, a auth.Account) (userView, error) { return newUserView(a), nil },
		row: func(u userView) []any {
			return []any{u.ID, u.Email, u.status(), u.Sessions, shortTime(u.LastSeenAt), shortTime(&u.CreatedAt), u.Name}
		},
	}.command(out)
}

// changeUser returns a command that changes a user. Its JSON has the user and more.
func changeUser(out io.Writer, c program.Command[Config],
	change func(ctx context.Context, o *operator, a auth.Account) (text string, more map[string]any, err error),
) program.Command[Config] {
	return changeCommand(out, c, program.Arg{Name: "USER", Doc: userDoc}, (*operator).user,
		func(ctx context.Context, o *operator, a auth.Account) (string, func() (any, error), error) {
			text, more, err := change(ctx, o, a)
			return text, func() (any, error) {
				after, err := o.users.Find(ctx, a.ID.String())
				view := map[string]any{"user": newUserView(after)}
				maps.Copy(view, more)
				return view, err
			}, err
		})
}

func verifyUser(out io.Writer) program.Command[Config] {
	return changeUser(out, program.Command[Config]{
		Name: "verify", Summary: "Mark the e-mail address of a user as verified",
		Detail: "For users that no mail can reach. Verify only addresses that you know to be the user's: an owner of a verified address\n" +
			"can accept invitations to it, and use single sign-on with it.",
	}, func(ctx context.Context, o *operator, a auth.Account) (string, map[string]any, error) {
		return a.Email + " is verified", nil, o.users.Verify(ctx, a)
	})
}

func resetPassword(out io.Writer) program.Command[Config] {
	var byMail bool
	return changeUser(out, program.Command[Config]{
		Name: "reset-password", Summary: "Print or mail a password reset link",
		Detail: "The link works once and expires after an hour. It gives access to the account: send it only to the user. Setting\n" +
			"the password ends the user's sessions. The old password works until then; disable the user to block access\n" +
			"immediately. The link starts with PUBLIC_URL. With --mail, the running cloud sends the link, so SECRET_KEYS or\n" +
			"DATA_DIR must be those of the cloud.",
		Flags: func(flags *flag.FlagSet) {
			flags.BoolVar(&byMail, "mail", false, "Mail the link to the user instead of printing it")
		},
	}, func(ctx context.Context, o *operator, a auth.Account) (string, map[string]any, error) {
		if byMail {
			box, err := openSecretBox(o.config, o.logger)
			if err != nil {
				return "", nil, err
			}
			o.users.Accounts.Mailer = mail.Urgent{Outbox: &mail.Outbox{DB: o.pools.tenants, Sealer: box, Logger: o.logger}}
			return "A reset link will be mailed to " + a.Email, map[string]any{"mailedTo": a.Email}, o.users.MailReset(ctx, a.ID)
		}
		link, until, err := o.users.ResetLink(ctx, a.ID)
		return fmt.Sprintf("Valid once, until %s:\n%s", shortTime(&until), link), map[string]any{"link": link, "expiresAt": until.UTC()}, err
	})
}

func disableUser(out io.Writer) program.Command[Config] {
	return changeUser(out, program.Command[Config]{
		Name: "disable", Summary: "Disable a user and end all sessions of the user",
		Detail: "Takes effect immediately. Keys that the user created belong to organizations and stay valid; revoke a key with\n" +
			"svc-cloud keys revoke. Undo with svc-cloud users enable.",
	}, func(ctx context.Context, o *operator, a auth.Account) (string, map[string]any, error) {
		return fmt.Sprintf("%s is disabled; %d sessions ended", a.Email, a.Sessions), nil, o.users.Disable(ctx, a.ID)
	})
}

func enableUser(out io.Writer) program.Command[Config] {
	return changeUser(out, program.Command[Config]{
		Name: "enable", Summary: "Enable a disabled user again",
	}, func(ctx context.Context, o *operator, a auth.Account) (string, map[string]any, error) {
		return a.Email + " is enabled", nil, o.users.Enable(ctx, a.ID)
	})
}

// keysCommand manages organization keys.
func keysCommand(stdin io.Reader, out io.Writer) program.Command[Config] {
	var ref string
	var json bool
	return program.Command[Config]{
		Name: "keys", Summary: "Revoke organization keys",
		Commands: []program.Command[Config]{{
			Name: "revoke", Summary: "Revoke an organization key immediately",
			Detail: "Workers with this key cannot launch more browsers; running sessions continue. svc-cloud organizations show lists the\n" +
				"key IDs. To pass the key itself, use - and standard input: command lines are visible to others and logged.",
			Args:  []program.Arg{{Name: "KEY", Doc: "The key's ID, or - to read the key from standard input", Value: &ref}},
			Flags: func(flags *flag.FlagSet) { addJSONFlag(flags, &json) },
			Run: func(ctx context.Context, config Config, logger *slog.Logger) error {
				key := ref
				if ref == "-" {
					line, err := bufio.NewReader(stdin).ReadString('\n')
					if err != nil && line == "" {
						return fmt.Errorf("read the key from standard input: %w", err)
					}
					key = strings.TrimSpace(line)
				}
				return withOperator(ctx, config, logger, func(o *operator) error {
					return o.revoke(ctx, out, key, json)
				})
			},
		}},
	}
}

func (o *operator) revoke(ctx context.Context, out io.Writer, ref string, json bool) error {
	key, orgID, err := apikey.Find(ctx, o.pools.system, ref)
	if fault.Is(err, fault.NotFound) {
		return fmt.Errorf("no active key has this ID or text; svc-cloud organizations show ORG lists the keys of an organization")
	}
	if err != nil {
		return err
	}
	if err := o.keys.Revoke(ctx, orgID, key.ID); err != nil {
		return err
	}
	if json {
		return printJSON(out, map[string]any{
			"organizationId": orgID,
			"key":            newKeyView(key),
		})
	}
	_, err = fmt.Fprintf(out, "Revoked %s…%s (%s) of organization %s\n", key.Prefix, key.LastFour, key.Name, orgID)
	return err
}
