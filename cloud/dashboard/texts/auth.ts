/** The texts of the pages for sign-in and accounts. */
export const texts = {
  signIn: "Sign in",
  email: "E-mail address",
  password: "Password",
};
