package org

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// mail sends the invitation with its link, which is stored nowhere else.
func (s *Service) mail(ctx context.Context, tx *sqlx.Tx, orgID uuid.UUID, i Invitation, link *url.URL) error {
	var names struct {
		Inviter      string `db:"inviter"`
		Organization string `db:"organization"`
	}
	err := tx.GetContext(ctx, &names, `
		SELECT coalesce(u.name, $3) AS inviter, o.name AS organization
		FROM organizations o LEFT JOIN users u ON u.id = $2 WHERE o.id = $1`, orgID, i.InvitedBy, serviceAccount(ctx).Name)
	if err != nil {
		return fmt.Errorf("find the inviter: %w", err)
	}
	organization := quoted(names.Organization)
	text := fmt.Sprintf(`Hello,

%s invites you to join %s as %s.

To accept, sign in with this address and open:

%s

If you have no account yet, the page lets you create one.

The invitation expires on %s. If you did not expect it, ignore this message.
`, quoted(names.Inviter), organization, withArticle(i.Role), link, i.ExpiresAt.UTC().Format("2 January 2006, 15:04 MST"))
	return s.Mail.Send(ctx, tx, i.Email, "Invitation to join "+organization, text)
}

// withArticle returns the role with its article.
func withArticle(r Role) string {
	if r == Member {
		return "a member"
	}
	return "an " + string(r)
}

// maxQuotedName is the maximum length of a quoted name in characters.
const maxQuotedName = 60

// quoted returns a name for a mail: in quotation marks, on one line and without
// anything that a mail client takes for a link or an address. Users choose the
// name and the recipient, but the mail is sent by the service.
func quoted(name string) string {
	words := strings.FieldsFunc(name, isForbiddenInName)
	for i, word := range words {
		words[i] = preventLinks(word)
	}
	characters := []rune(strings.Join(words, " "))
	if len(characters) > maxQuotedName {
		characters = append(characters[:maxQuotedName-1], '…')
	}
	return `"` + string(characters) + `"`
}

// isForbiddenInName reports characters that may not occur within a word of a name: they
// could fake lines, reverse the text or end the quotation.
func isForbiddenInName(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '"'
}

// preventLinks puts a space after each dot, colon, slash and at sign within a word.
func preventLinks(word string) string {
	var b strings.Builder
	for i, r := range word {
		b.WriteRune(r)
		if strings.ContainsRune(".:/@", r) && i+1 < len(word) {
			b.WriteByte(' ')
		}
	}
	return b.String()
}
