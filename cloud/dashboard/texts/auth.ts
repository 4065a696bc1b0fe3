/** The texts of the pages for sign-in and accounts. */
export const texts = {
  signIn: "Sign in",
  email: "E-mail address",
  password: "Password",
  newPassword: "New password",
  show: "Show",
  hide: "Hide",
  showPassword: "Show password",
  hidePassword: "Hide password",
  passwordRules:
    "At least 10 characters, 5 of them different. Not your name, your e-mail address or a common password.",
  name: "Your name",
  nameHint: "Members of your organizations see it.",
  continue: "Continue",
  toSignIn: "Go to sign-in",
  backToSignIn: "Back to sign-in",
  or: "or",
  singleSignOn: "Continue with single sign-on",
  forgot: "Forgot your password?",
  noAccount: "No account yet?",
  signUp: "Sign up",
  byInvitation:
    "No account yet? Ask an owner or admin of your organization for an invitation.",
  closed: "New accounts cannot be created here.",

  linkTitle: "Signing in",
  linkFailed: "The link did not sign you in",
  linkMissing: "This address contains no sign-in link",
  linkHint:
    "A sign-in link works once, for five minutes. Create another one, or sign in with your password.",

  signUpTitle: "Create an account",
  createAccount: "Create account",
  haveAccount: "Already have an account?",
  signUpClosed: "Sign-up is closed",
  signUpClosedHint:
    "The operator of this service creates no new accounts here. Ask the operator if you need one.",
  inviteOnly: "You need an invitation",
  inviteOnlyHint:
    "Open the link in your invitation e-mail; it leads to a form for your account. You can also enter the token of the e-mail here.",
  invitationToken: "Invitation token",
  invitationTokenHint:
    "The link in the invitation e-mail, or the part of it after “token=”.",
  afterSignUp: "Next, you create your organization.",
  invitedAddress: "Use the address that received the invitation.",

  forgotTitle: "Reset your password",
  forgotHint:
    "Enter the e-mail address of your account. We send a link that sets a new password.",
  sendLink: "Send link",
  forgotSent: "Check your e-mail",
  forgotSentHint: (email: string) =>
    `If ${email} has an account, the e-mail is on its way. Its link works once, for one hour. Also look in the spam folder.`,
  otherAddress: "Use another address",

  incompleteTitle: "This link is incomplete",
  incompleteHint:
    "Open the link in the e-mail again. If you copied it, copy the whole link, including the part after the # sign.",

  resetTitle: "Set a new password",
  resetHint: "All your dashboard sessions end when the password changes.",
  setPassword: "Set password",
  resetDone: "Your password is set",
  resetDoneHint: "Sign in with the new password.",
  resetInvalid: "This link no longer works",
  resetInvalidHint:
    "A link works once, for one hour, and only until the password changes. Request a new one.",
  requestLink: "Request a new link",

  verifyTitle: "Verify your e-mail address",
  verifyHint: "This confirms that the address belongs to you.",
  verify: "Verify address",
  verified: "Your e-mail address is verified",
  verifiedHint: "You can now accept invitations and create organizations.",
  verifyInvalid: "This link no longer works",
  verifyInvalidHint:
    "A link works once, for 24 hours. If your address is not verified yet, sign in and send another e-mail from your account page.",
  toAccount: "Go to your account",

  joinTitle: "Join an organization",
  joinHint: "You were invited to an organization. Accept to become a member.",
  joinHow: "How do you want to continue?",
  joinSignIn: "I have an account",
  joinSignUp: "I am new",
  signInAndJoin: "Sign in and join",
  signUpAndJoin: "Create account and join",
  joinSsoHint: "After single sign-on, open the link in the e-mail again.",
  signedInAs: (email: string) => `You are signed in as ${email}.`,
  join: "Accept invitation",
  joining: "Accepting the invitation",
  otherAccount: "Use another account",
  wrongAccountHint: (email: string) =>
    `You are signed in as ${email}. Use the account with the address that received the invitation, or ask for an invitation to ${email}.`,
  unverifiedHint: (email: string) =>
    `You are signed in as ${email}, and this address is not verified. If it received the invitation, open the verification link that we sent to it, then come back and accept. Otherwise use another account.`,
  sendVerification: "Send the e-mail again",
  verificationSent: "Verification e-mail sent",
  memberLimit: "The organization is full",
  memberLimitHint:
    "It has reached the member limit of its plan. Ask an owner of the organization to change the plan or to remove a member, then accept again.",
  unknownInvitation: "This invitation does not exist",
  unknownInvitationHint:
    "Check that the link is complete, or ask for a new invitation.",
  overInvitation: "This invitation cannot be accepted",
  joined: (name: string) => `You joined ${name}`,
  joinedHint: (role: string) => `Your role is ${role}.`,
  notActivated:
    "The organization could not be activated. Select it at the top left.",
  toOverview: "Go to the overview",
};
