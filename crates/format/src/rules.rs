//! A list of rules that files keep, from one table: what each is called by programs and by people.

/// Makes the `enum` of some rules: each with its name in snake case and a sentence, in which a finding's numbers take the places of
/// `{found}` and `{expected}`.
#[macro_export]
macro_rules! rules {
    ($(#[$doc:meta])* $type:ident($found:ident, $expected:ident): $($variant:ident $name:literal $text:literal)+) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $(#[doc = concat!("`", $name, "`: ", $text, ".")] $variant,)+
        }

        impl $type {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// A stable code for programs, in snake case.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The sentence for a person, with `{found}` and `{expected}` in it where a finding has them.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// The sentence about a finding, with what was found and what was expected in their places.
            #[must_use]
            pub fn sentence(self, $found: impl std::fmt::Display, $expected: impl std::fmt::Display) -> String {
                match self { $(Self::$variant => format!($text),)+ }
            }

            /// Whether the sentence says what was found.
            #[must_use]
            pub fn tells_found(self) -> bool {
                self.text().contains(concat!("{", stringify!($found), "}"))
            }

            /// Whether the sentence says what was expected.
            #[must_use]
            pub fn tells_expected(self) -> bool {
                self.text().contains(concat!("{", stringify!($expected), "}"))
            }
        }
    };
}
