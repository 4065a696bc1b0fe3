package org

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// mail sends the invitation with its token, which is nowhere else.
func (s *Service) mail(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, i Invitation, token string) error {
	var names struct {
		Inviter      string `db:"inviter"`
		Organization string `db:"organization"`
	}
	err := tx.GetContext(ctx, &names, `
		SELECT u.name AS inviter, o.name AS organization
		FROM organizations o, users u WHERE o.id = $1 AND u.id = $2`, orgID, i.InvitedBy)
	if err != nil {
		return fmt.Errorf("find who invites: %w", err)
	}
	organization := oneLine(names.Organization)
	link := s.PublicURL.JoinPath("account/accept-invitation")
	link.Fragment = "token=" + token // which a browser sends to no server
	text := fmt.Sprintf(`Hello,

%s invites you to join %s as %s.

To accept, sign in with this address (sign up first if you have no account yet) and open:

%s

A program sends what follows "token=" to POST %s.

The invitation is good until %s. If you don't expect it, ignore this mail: nothing happens.
`, oneLine(names.Inviter), organization, withArticle(i.Role), link, s.PublicURL.JoinPath("v1/invitations/accept"),
		i.ExpiresAt.UTC().Format("2 January 2006, 15:04 MST"))
	return s.Mail.Send(ctx, tx, i.Email, "Join "+organization, text)
}

// withArticle is the role as a text names it.
func withArticle(r Role) string {
	if r == Member {
		return "a member"
	}
	return "an " + string(r)
}

// oneLine is a name that people chose, without what could pass for more lines
// of the message.
func oneLine(name string) string {
	words := strings.FieldsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	return strings.Join(words, " ")
}
