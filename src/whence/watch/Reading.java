/* What an object of any class says, by the names of its methods, and texts as JSON has them. */
package whence;

import java.lang.reflect.Method;

class Reading {
    static Object call(Object target, String method) throws Exception {
        Class type = target.getClass();
        Method found = type.getMethod(method, new Class[0]);
        found.setAccessible(true);
        return found.invoke(target, new Object[0]);
    }

    static Object field(Object target, String first, String second) {
        try {
            return call(target, first);
        } catch (Throwable next) {
        }
        try {
            return call(target, second);
        } catch (Throwable none) {
        }
        return null;
    }

    static Object called(Object target, String method, Class takes, Object argument) throws Exception {
        Method found = target.getClass().getMethod(method, new Class[] {takes});
        found.setAccessible(true);
        return found.invoke(target, new Object[] {argument});
    }

    static String option(Object option) {
        if (option instanceof scala.Some) {
            return String.valueOf(((scala.Some) option).value());
        }
        return "";
    }

    static String firstLine(String text) {
        int end = text.indexOf('\n');
        return end < 0 ? text : text.substring(0, end);
    }

    static String cut(String text, int most) {
        return text == null ? "" : text.length() <= most ? text : text.substring(0, most) + "...";
    }

    static String quote(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder quoted = new StringBuilder(text.length() + 2).append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c < ' ' || c == '\u2028' || c == '\u2029' || (c >= '\ud800' && c <= '\udfff')) {
                String hex = Integer.toHexString(c);
                quoted.append("\\u").append("0000".substring(hex.length())).append(hex);
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }
}
