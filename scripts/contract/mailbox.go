package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// mailbox is the directory to which a cloud without a mail server writes mail.
type mailbox struct{ dir string }

const (
	mailTimeout  = 20 * time.Second
	mailInterval = 50 * time.Millisecond
)

// The pages to which mails link.
const (
	verifyPage = "/account/verify-email"
	resetPage  = "/account/reset-password"
	invitePage = "/account/accept-invitation"
)

// token waits for a mail to the address with a link to the page, and returns the
// token of the link.
func (m mailbox) token(ctx context.Context, address, page string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, mailTimeout)
	defer cancel()
	for {
		token, err := m.find(address, page)
		if token != "" || err != nil {
			return token, err
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("no mail to %s with a link to %s: %w", address, page, ctx.Err())
		case <-time.After(mailInterval):
		}
	}
}

var mailToken = regexp.MustCompile(`token=([A-Za-z0-9_-]+)`)

// find searches the newest mail first. The file names start with the time.
func (m mailbox) find(address, page string) (string, error) {
	files, err := filepath.Glob(filepath.Join(m.dir, "*.eml"))
	if err != nil {
		return "", err
	}
	for i := len(files) - 1; i >= 0; i-- {
		text, err := os.ReadFile(files[i])
		if err != nil {
			return "", err
		}
		mail := string(text)
		if !strings.Contains(mail, "\r\nTo: "+address+"\r\n") || !strings.Contains(mail, page) {
			continue
		}
		if found := mailToken.FindStringSubmatch(mail); found != nil {
			return found[1], nil
		}
	}
	return "", nil
}
